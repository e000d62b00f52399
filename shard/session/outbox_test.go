package session

import (
	"fmt"
	"testing"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

// saying is an update that says one thing.
type saying string

func (s saying) message() *pb.ShardMessage { return ackOf(string(s)) }

func ackOf(echo string) *pb.ShardMessage {
	return &pb.ShardMessage{Payload: &pb.ShardMessage_Ack{Ack: &pb.Acknowledgement{Echo: echo}}}
}

func (o *outbox) drained(t *testing.T) (out []string) {
	t.Helper()
	for {
		m, _ := o.next()
		if m == nil {
			return out
		}
		out = append(out, m.GetAck().GetEcho())
	}
}

func TestRepliesGoBeforeNewsAndNewsReplacesNews(t *testing.T) {
	o := newOutbox()
	for i := range 3 {
		for _, machine := range []string{"a", "b"} {
			o.put(topic{machine: machine}, saying(fmt.Sprint(machine, i)))
		}
		o.put(topic{shape: 7}, saying(fmt.Sprint("shape", i)))
		o.reply(ackOf(fmt.Sprint("reply", i)))
	}
	if n := o.waiting(); n != 6 {
		t.Errorf("%d wait, want three replies and the newest of three topics", n)
	}
	want := "[reply0 reply1 reply2 a2 b2 shape2]"
	if got := fmt.Sprint(o.drained(t)); got != want {
		t.Errorf("sent %s, want %s", got, want)
	}
	o.put(topic{machine: "a"}, saying("again"))
	if got := fmt.Sprint(o.drained(t)); got != "[again]" {
		t.Errorf("sent %s, want what came after", got)
	}
}

func TestAnOutboxThatEnds(t *testing.T) {
	o := newOutbox()
	o.reply(ackOf("reply"))
	o.put(topic{machine: "a"}, saying("news"))
	o.end()
	if o.reply(ackOf("late")) {
		t.Error("a reply is taken after the end")
	}
	if !o.put(topic{machine: "b"}, saying("late")) {
		t.Error("news after the end ends the session for being slow")
	}
	if _, over := o.next(); over {
		t.Error("over before what waited was taken")
	}
	o.drained(t)
	if m, over := o.next(); m != nil || !over {
		t.Errorf("%v, %v; want nothing more", m, over)
	}
}

func TestRepliesAreBounded(t *testing.T) {
	o := newOutbox()
	for i := range RepliesMax {
		if !o.reply(ackOf("")) {
			t.Fatalf("reply %d is refused", i)
		}
	}
	if o.reply(ackOf("")) {
		t.Error("more replies wait than may")
	}
}

// TestMemoryOfPastNewsIsGivenBack: what a flood of news took is not kept for the
// few that come after it.
func TestMemoryOfPastNewsIsGivenBack(t *testing.T) {
	o := newOutbox()
	for n, flood := range []int{slackTopics, 4 * slackTopics} {
		o.put(topic{shape: 1}, saying("few"))
		few := o.latest
		o.drained(t)
		for i := range flood {
			o.put(topic{machine: fmt.Sprint(i)}, saying("flood"))
		}
		kept := len(o.latest) == len(few) // the same map, as long as it is used on
		o.drained(t)
		few[topic{shape: 2}] = saying("mark")
		_, same := o.latest[topic{shape: 2}]
		delete(few, topic{shape: 2})
		if want := n == 0; !kept || same != want {
			t.Errorf("after %d topics at a time the map is used on: %t, want %t", flood, same, want)
		}
	}
}
