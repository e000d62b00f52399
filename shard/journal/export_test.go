package journal

// Break lets the next write fail, as on a disk that is gone.
func Break(j *Journal) { j.file.Close() }

// CommitBytes is what a commit frame takes.
var CommitBytes = int64(len(commitFrame(0, 0)))
