// Package pools reads what a provider offers: pools of machines, the drivers that make
// them, and the quotas that they share. A file is YAML or JSON:
//
//	drivers:
//	- name: sim
//	  kind: simulated
//	pools:
//	- name: general
//	  driver: sim
//	  machines: 100
//	  zones: [a, b]
//	  types:
//	  - name: m5.large
//	    resources: {cpu: 2, memory: 8Gi}
//	    prices: [{capacityType: OnDemand, pricePerHour: 0.096}]
//
// Types of hundreds of instances need not be written by hand: Import makes them of a catalogue
// and a price list, and typesFile names the file.
package pools

import _ "embed"

// Schema is the JSON Schema of a pools file; its typesFile definition is that of a types file.
//
//go:embed schema.json
var Schema []byte
