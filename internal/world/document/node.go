package document

// Kind is what a Node is.
type Kind uint8

// The kinds of nodes.
const (
	Null Kind = iota
	Bool
	Number // finite or not: NaN, Infinity and -Infinity are numbers too
	Text
	List
	Object
)

var kindNames = [...]string{"nothing", "a boolean", "a number", "text", "a list", "an object"}

// String returns the kind as it reads in a sentence: "a list".
func (k Kind) String() string { return kindNames[k] }

// Node is one value of a document, with all that lies in it.
type Node struct {
	// Key is the node's key when it lies in an object.
	Key string
	// Text is the value of a scalar: a text without its quotes, a number as it
	// is written, true or false.
	Text string
	// Items are the items of a list, or the values of an object in the order
	// of the file. Keys may occur twice here; Schema and Reader refuse that.
	Items []Node
	Kind  Kind
	// unread says that the value is an item of a long list whose own items are not kept: a Reader parses it when its turn
	// comes; see LoadLarge.
	unread bool
	// at is where the value begins in the text of the document, keyAt where its key does: in
	// bytes. Both fit, since a file may have JSONBytesMax at most.
	at, keyAt uint32
}
