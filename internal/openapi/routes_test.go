package openapi

import (
	"reflect"
	"strings"

	"github.com/tonnage/tonnage/internal/advice"
	"github.com/tonnage/tonnage/internal/fleetview"
	"github.com/tonnage/tonnage/web"
)

// parameter is one of a query.
type parameter struct {
	name, about string
	required    bool
	whole       bool // a whole number, text otherwise
	words       []string
}

// route is a path and what it answers.
type route struct {
	path, method, id, about string
	params                  []parameter
	answer                  any    // a value of the type of the answer; nil = see kind
	kind                    string // media type of an answer that is not described; "" = JSON
	kept                    string // what is said of an answer that another page describes
	errors                  []int
	change                  bool
	example                 string // a query that the fleet of the tests answers; "" = the path alone
}

var (
	text   = parameter{name: "q", about: "only what has this text, in a name or a description"}
	offset = parameter{name: "offset", about: "how many rows to leave out at the beginning", whole: true}
	limit  = parameter{name: "limit", about: "most rows, 1 to 1000; 100 if left out", whole: true}
	from   = parameter{name: "from", about: "Unix milliseconds; what was at this time is compared, and what came after it counts", whole: true}
	to     = parameter{name: "to", about: "Unix milliseconds; now if left out", whole: true}
	key    = parameter{name: "key", about: "label that machines are grouped by; the narrowest if left out"}
)

const (
	badQuery = 400
	notFound = 404
	conflict = 409
	tooLarge = 422
	busy     = 429
	away     = 503
)

// queries are the routes below /api/v1 that fleetview answers.
var queries = []route{
	{id: "needs", about: "Unmet Needs, highest priority first, then longest unmet; with all or state also satisfied ones.", answer: fleetview.NeedsAnswer{}, errors: []int{badQuery},
		params: []parameter{{name: "cluster", about: "only of this cluster"}, {name: "reason", about: "only with this reason"},
			{name: "all", about: "true: satisfied Needs too, by priority", words: []string{"true", "false"}}, {name: "state", about: "only Needs in this state, satisfied ones too", words: []string{"short", "satisfied"}}, text, offset, limit}},
	{id: "need", about: "One Need: what it asks for and is short of, the machines that carry its stamp, its plans, its past.", answer: fleetview.NeedAnswer{}, errors: []int{badQuery, notFound},
		params:  []parameter{{name: "name", about: "name of the Need, or cluster/row", required: true}, {name: "key", about: "key of the Need as lists have it: finds it when its row has another number"}},
		example: "name=research/1"},
	{id: "machines", about: "Machines, and their price together.", answer: fleetview.MachinesAnswer{}, errors: []int{badQuery, notFound},
		params: []parameter{
			{name: "state", about: "only in this state", words: web.States[:]}, {name: "cluster", about: "only of this cluster"}, {name: "type", about: "only of this instance type"},
			{name: "capacity", about: "only of this capacity type", words: web.CapacityTypes[:]}, {name: "key", about: "label of a domain; value says which"},
			{name: "value", about: "value of the label"}, {name: "sort", about: "price: the dearest first; by id otherwise"}, text, offset, limit,
		}},
	{id: "machine", about: "One machine: its record, the Need that it serves, why no cheaper machine does, its past.", answer: fleetview.MachineAnswer{}, errors: []int{badQuery, notFound},
		params: []parameter{{name: "id", about: "id of the machine", required: true}}, example: "id={machine}"},
	{id: "clusters", about: "Clusters: what they ask for, have, are short of and spend.", answer: fleetview.ClustersAnswer{}, errors: []int{badQuery},
		params: []parameter{{name: "tenant", about: "only of this tenant"}, {name: "sort", about: "what the list is sorted by; short if left out", words: []string{"short", "cluster", "share", "spend", "machines", "rows"}}, text, offset, limit}},
	{id: "cluster", about: "One cluster.", answer: fleetview.ClusterAnswer{}, errors: []int{badQuery, notFound},
		params: []parameter{{name: "name", about: "name of the cluster", required: true}}, example: "name=research"},
	{id: "tenants", about: "Tenants, those furthest above their share first.", answer: []fleetview.TenantRow{}},
	{id: "domains", about: "Domains of a key, and which could hold a gang. That is counted, not decided.", answer: fleetview.DomainsAnswer{}, errors: []int{badQuery, notFound},
		params: []parameter{key, {name: "hold", about: "size of a gang, in machines", whole: true}, {name: "type", about: "instance type that the gang wants"}, offset, limit}, example: "hold=2"},
	{id: "domain", about: "One domain: who has machines there, and which.", answer: fleetview.DomainAnswer{}, errors: []int{badQuery, notFound},
		params: []parameter{{name: "key", about: "label that machines are grouped by", required: true}, {name: "value", about: "value of the label", required: true}}, example: "{domain}"},
	{id: "plans", about: "The plans of preemption that are kept, newest first.", answer: []fleetview.PlanRow{}},
	{id: "plan", about: "One plan of preemption, with the machines that it takes.", answer: fleetview.PlanAnswer{}, errors: []int{badQuery, notFound},
		params: []parameter{{name: "number", about: "number of the plan", required: true, whole: true}}, example: "number=1"},
	{id: "money", about: "What the fleet costs: list prices, what interruptions cost, what idles.", answer: fleetview.MoneyAnswer{}},
	{id: "map", about: "What the squares of the map are.", answer: fleetview.LayoutAnswer{}, errors: []int{badQuery, notFound},
		params: []parameter{key, {name: "within", about: "only machines of this domain"}}},
	{id: "cells", about: "What the squares of the map show.", answer: fleetview.CellsAnswer{}, errors: []int{badQuery, notFound},
		params: []parameter{key, {name: "within", about: "only machines of this domain"}}},
	{id: "cycles", about: "The cycles that are kept, newest first.", answer: fleetview.CyclesAnswer{}, errors: []int{badQuery},
		params:  []parameter{{name: "over", about: "only cycles that took so many milliseconds, also some from before the rest that is kept", whole: true}, {name: "limit", about: "most cycles, 1 to 4000; 1000 if left out", whole: true}},
		example: "over=0"},
	{id: "changes", about: "What differs between two times.", answer: fleetview.ChangesAnswer{}, errors: []int{badQuery}, params: []parameter{from, to, text}},
	{id: "preemptions", about: "Who was preempted for whom.", answer: fleetview.PreemptionsAnswer{}, errors: []int{badQuery}, params: []parameter{from, to}},
	{id: "explain", about: "Why a Need or a machine is as it is.", kept: "As `tonnage explain -o json` writes it; of a machine that is bound also `free`, what would be done with it if it were idle.", errors: []int{badQuery, notFound, tooLarge, busy},
		params: []parameter{{name: "need", about: "name of a Need, or cluster/row; or"}, {name: "machine", about: "id of a machine"}}, example: "need=research/1"},
	{id: "help", about: "What would help a Need that is short: machines, a priority, a requirement less. It takes two seconds at most.", kept: "As an element of `help` of `tonnage explain need --help-me -o json`, and `millis`, how long it took.", errors: []int{badQuery, notFound, tooLarge, busy},
		params: []parameter{{name: "need", about: "name of a Need, or cluster/row", required: true}}, example: "need=research/1"},
	{id: "relief", about: "Machines of one kind that would satisfy the most Needs that are short, and the least number of them that does. It takes a second at most; an answer is used for a minute while the same Needs are short, and the next one is looked for ten times as long after it as it took. Without `capacity` no kind helps, or, with `exhausted`, there was no time to find one or the fleet is too large for the page to decide again.", answer: advice.Relief{}},
	{id: "whatif", about: "What a change would do: machines that join, another priority or a requirement less, machines that are lost. All that is given changes at once.", answer: fleetview.WhatIfAnswer{}, errors: []int{badQuery, notFound, tooLarge, busy},
		params: []parameter{
			{name: "add", about: "machines that join: TYPE/CAPACITY/ZONE, of which the last two may be left out, or a machine like which they are"}, {name: "count", about: "how many join, 1 to 10000; 1 if left out", whole: true},
			{name: "need", about: "name of a Need, or cluster/row, that gets"}, {name: "priority", about: "this priority, or", whole: true}, {name: "relax", about: "no requirement on this key any more"},
			{name: "lose", about: "id of a machine to lose"}, {name: "key", about: "label of the domain to lose, and"}, {name: "value", about: "its value"},
		}, example: "lose={machine}"},
	{id: "kinds", about: "The kinds of machines that there are, as add of whatif takes them, those with most machines first.", answer: []fleetview.KindRow{}},
}

// routes are all paths of the API.
func routes() []route {
	state, event := web.Answers()
	out := []route{
		{path: "/api/v1/state", id: "state", about: "The newest frame, and the history that charts show.", answer: state},
		{path: "/api/v1/events", id: "events", about: "A stream of server-sent events, one for each cycle: the field data of an event of the name frame is JSON of this form.", answer: event, kind: "text/event-stream", errors: []int{away}},
		{path: "/api/v1/world", id: "world", about: "What the next cycle will look at, as a file that decide, explain and what-if read. One at a time is answered.", kept: "A world, as docs/reference/world.md describes it.", errors: []int{busy}},
		{path: "/api/v1/retire", method: "post", id: "retire", about: "Forgets a machine that is Failed. Shards serve it; `tonnage up` repairs machines by itself.", kind: "text/plain", change: true, errors: []int{conflict},
			params: []parameter{{name: "machine", about: "id of the machine", required: true}}, example: "machine=m"},
		{path: "/api/v1/openapi.json", id: "openapi", about: "This description.", kept: "An OpenAPI 3.1 document."},
	}
	for _, q := range queries {
		q.path = web.QueryPath + q.id
		out = append(out, q)
	}
	for i := range out {
		if out[i].method == "" {
			out[i].method = "get"
		}
	}
	return out
}

// nameOf names the type of an answer.
func nameOf(t reflect.Type) string {
	name := t.Name()
	return strings.ToUpper(name[:1]) + name[1:]
}
