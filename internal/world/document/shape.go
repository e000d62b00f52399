package document

// Type is what a value of a file is, as its reference and its JSON Schema say it.
type Type uint8

// The types of values.
const (
	TypeUnknown    Type = iota // a field that nobody has described
	TypeText                   // may be empty
	TypeName                   // not empty
	TypeWord                   // one of Shape.Words
	TypeInteger                // from Min to Max
	TypeNumber                 // from Min to Max, and one of Words where there are any
	TypeBool                   // true or false
	TypeTime                   // RFC 3339
	TypeDuration               // 10m, or a number of seconds
	TypeHex                    // 16 hexadecimal digits
	TypeQuantities             // amounts by dimension
	TypeTexts                  // texts by free keys
	TypeNumbers                // numbers by free keys, from Min to Max
	TypeList                   // of Items
	TypeObject                 // with the fields of Object
	TypeChoice                 // any of Choices
)

// Shape describes the values that a field may have.
type Shape struct {
	Type     Type
	Words    []string
	Min, Max float64 // bounds of numbers; +Inf = none above
	Items    *Shape
	Choices  []Shape
	// Object returns the fields of an object, and Title what it is called. It is a function, so
	// that schemas may be described before they are made.
	Object func() []Description
	Title  string
}

// Description is a field as it is described.
type Description struct {
	Key      string
	Required bool
	Is       Shape
	// Default is what holds without the field, in words; empty = nothing does.
	Default string
	// About is what the field means, in one or two sentences of Markdown.
	About string
}

// Describe returns the fields of the schema, in the order in which it reads them.
func (s *Schema[T]) Describe() []Description {
	out := make([]Description, len(s.fields))
	for i := range s.fields {
		f := &s.fields[i]
		out[i] = Description{Key: f.Key, Required: f.Required, Is: f.Is, Default: f.Default, About: f.About}
	}
	return out
}

// ObjectOf is the shape of an object of a kind.
func ObjectOf(title string, fields func() []Description) Shape {
	return Shape{Type: TypeObject, Title: title, Object: fields}
}

// ListOf is the shape of a list.
func ListOf(items Shape) Shape { return Shape{Type: TypeList, Items: &items} }

// WordOf is the shape of one of several words.
func WordOf(words ...string) Shape { return Shape{Type: TypeWord, Words: words} }

// IntegerOf is the shape of a whole number within bounds.
func IntegerOf(low, high float64) Shape { return Shape{Type: TypeInteger, Min: low, Max: high} }

// NumberOf is the shape of a number within bounds; words may stand in its place.
func NumberOf(low, high float64, words ...string) Shape {
	return Shape{Type: TypeNumber, Min: low, Max: high, Words: words}
}

// Is is the shape of a type that needs no more words.
func Is(t Type) Shape { return Shape{Type: t} }
