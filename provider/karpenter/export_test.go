package karpenter

import "time"

// EventsWithin is how long tests wait for an Event that does not come.
const EventsWithin = 3 * time.Second

func init() { eventsWithin = EventsWithin }
