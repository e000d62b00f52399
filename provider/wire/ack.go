package wire

import "google.golang.org/protobuf/encoding/protowire"

// MachineOf returns the Machine within what AppendRecord appended.
func MachineOf(record []byte) []byte {
	_, _, tag := protowire.ConsumeTag(record)
	if tag < 0 {
		return nil
	}
	machine, size := protowire.ConsumeBytes(record[tag:])
	if size < 0 {
		return nil
	}
	return machine
}

// AppendAck appends a TransitionAck of a Machine.
func AppendAck(dst []byte, operation string, machine []byte) []byte {
	dst = appendText(dst, fieldAckOperation, operation)
	return protowire.AppendBytes(protowire.AppendTag(dst, fieldAckMachine, protowire.BytesType), machine)
}
