#include "textflag.h"

// A request to valgrind is a sequence of instructions that has no effect on a
// processor. valgrind.h describes it. AX points to the request and its five
// arguments, DX holds the answer.

// CALLGRIND_TOGGLE_COLLECT of callgrind.h: 'C', 'T', and number 2.
#define toggleCollect $0x43540002

// func Toggle()
TEXT ·Toggle(SB), NOSPLIT, $48-0
	MOVQ toggleCollect, AX
	MOVQ AX, 0(SP)
	MOVQ $0, 8(SP)
	MOVQ $0, 16(SP)
	MOVQ $0, 24(SP)
	MOVQ $0, 32(SP)
	MOVQ $0, 40(SP)
	LEAQ 0(SP), AX
	XORL DX, DX
	ROLQ $3, DI
	ROLQ $13, DI
	ROLQ $61, DI
	ROLQ $51, DI
	XCHGQ BX, BX
	RET
