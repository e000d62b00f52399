package journal

// Break lets the next write fail, as on a disk that is gone.
func Break(j *Journal) { j.file.Close() }
