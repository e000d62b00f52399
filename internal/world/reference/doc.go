// Package reference writes what files may hold, from the schemas that read them: as JSON Schema,
// for editors and other programs, and as tables in Markdown, for people.
//
// JSON Schema says less than the parser checks: it knows the keys, types, words and bounds, and
// nothing of what concerns two fields. What the parser accepts, it accepts, but for null in the place
// of a value, which the parser takes for an absent one.
package reference

import (
	"encoding/json"
	"io"
	"math"

	"github.com/tonnage/tonnage/internal/world/document"
)

// dialect is the version of JSON Schema.
const dialect = "https://json-schema.org/draft/2020-12/schema"

// object is a JSON object.
type object = map[string]any

// WriteJSONSchema writes the JSON Schema of a file with the fields.
func WriteJSONSchema(out io.Writer, title string, fields []document.Description) error {
	g := generator{defs: object{}}
	root := g.object(fields)
	root["$schema"], root["title"] = dialect, title
	if len(g.defs) > 0 {
		root["$defs"] = g.defs
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(root)
}

// generator collects the kinds of objects that a schema refers to.
type generator struct{ defs object }

func (g *generator) object(fields []document.Description) object {
	properties, required := object{}, []string{}
	for i := range fields {
		f := &fields[i]
		of := g.shape(&f.Is)
		of["description"] = f.About
		properties[f.Key] = of
		if f.Required {
			required = append(required, f.Key)
		}
	}
	out := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

// quantity is an amount as Kubernetes writes it.
var quantity = object{"type": []string{"string", "number"}}

func (g *generator) shape(s *document.Shape) object {
	switch s.Type {
	case document.TypeText:
		return object{"type": "string"}
	case document.TypeName:
		return object{"type": "string", "minLength": 1}
	case document.TypeWord:
		return object{"enum": s.Words}
	case document.TypeInteger:
		return bounded(object{"type": "integer"}, s)
	case document.TypeNumber:
		number := bounded(object{"type": "number"}, s)
		if len(s.Words) == 0 {
			return number
		}
		return object{"anyOf": []object{number, {"enum": s.Words}}}
	case document.TypeBool:
		return object{"type": "boolean"}
	case document.TypeTime:
		return object{"type": "string", "format": "date-time"}
	case document.TypeDuration:
		return object{"anyOf": []object{{"type": "number", "minimum": 0}, {"type": "string", "pattern": `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$|^0$`}}}
	case document.TypeHex:
		return object{"type": "string", "pattern": "^[0-9a-fA-F]{16}$"}
	case document.TypeQuantities:
		return object{"type": "object", "additionalProperties": quantity}
	case document.TypeTexts:
		return object{"type": "object", "additionalProperties": object{"type": "string"}}
	case document.TypeNumbers:
		return object{"type": "object", "additionalProperties": bounded(object{"type": "number"}, s)}
	case document.TypeList:
		return object{"type": "array", "items": g.shape(s.Items)}
	case document.TypeObject:
		return g.reference(s)
	case document.TypeChoice:
		var all []object
		for i := range s.Choices {
			all = append(all, g.shape(&s.Choices[i]))
		}
		return object{"anyOf": all}
	}
	return object{}
}

func bounded(of object, s *document.Shape) object {
	of["minimum"] = s.Min
	if !math.IsInf(s.Max, 1) {
		of["maximum"] = s.Max
	}
	return of
}

// reference refers to a kind of object, which is written once.
func (g *generator) reference(s *document.Shape) object {
	if _, known := g.defs[s.Title]; !known {
		g.defs[s.Title] = nil // it may refer to itself
		g.defs[s.Title] = g.object(s.Object())
	}
	return object{"$ref": "#/$defs/" + s.Title}
}
