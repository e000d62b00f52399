package wire

// The numbers of the fields that are read, of MachineList,
const (
	fieldMachines = 1
	fieldRevision = 2
)

// of Machine,
const (
	fieldID             = 1
	fieldState          = 2
	fieldHost           = 3
	fieldInstanceType   = 4
	fieldZone           = 5
	fieldCapacityType   = 6
	fieldPricePerHour   = 7
	fieldInterruption   = 8
	fieldResources      = 9
	fieldLabels         = 10
	fieldLastError      = 12
	fieldAllocatable    = 13
	fieldCluster        = 14
	fieldShardMetadata  = 15
	fieldHostRef        = 2 // of HostRef
	fieldResourcesEntry = 1 // of Resources
	fieldEntryKey       = 1 // of the entries of maps
	fieldEntryValue     = 2
	fieldAckOperation   = 1 // of TransitionAck
	fieldAckMachine     = 2
)
