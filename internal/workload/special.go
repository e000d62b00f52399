package workload

func buildRows(f *Fleet) { buildCatalog(f) }
func buildFlat(f *Fleet) { buildCatalog(f) }
