package whatif

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/terminal"
)

// Sizes of the picture, in pixels. It is narrow: the page shows it in a drawer, and on telephones.
const (
	svgWidth    = 560
	svgMargin   = 16
	svgLine     = 20
	boxSize     = 16
	boxGap      = 4
	boxesPerRow = (svgWidth - 2*svgMargin) / (boxSize + boxGap)
	boxesMax    = 20 * boxesPerRow
	barLeft     = 250
	barHeight   = 14
	nameMax     = 32 // characters, left of the bars
	lineMax     = 76 // characters
	domainsMax  = 8
	victimsMax  = 24
	// configureSeconds is what a plan allows for binding after the last drain.
	configureSeconds = 600
)

const svgStyle = `
text{font:13px system-ui,sans-serif;fill:#1b1f24}
.title{font-size:15px;font-weight:600}
.quiet{fill:#59636e}
.r0{fill:#d0d7de}.r1{fill:#fff;stroke:#8c959f}.r2{fill:#1a7f37}.r3{fill:#d0d7de;stroke:#bc4c00}.r4{fill:#9a6700}.r5{fill:#bf8700}.r6{fill:#bc4c00}.r7{fill:#a40e26}
.wait{fill:#afb8c1}.frame{fill:none;stroke:#d0d7de}.ground{fill:#fff}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.quiet{fill:#9198a1}.ground{fill:#0d1117}.r0{fill:#3d444d}.r1{fill:#0d1117;stroke:#656c76}.r2{fill:#3fb950}.r3{fill:#3d444d;stroke:#f0883e}.r4{fill:#d29922}.r5{fill:#e3b341}.r6{fill:#f0883e}.r7{fill:#ff7b72}.frame{stroke:#3d444d}.wait{fill:#656c76}}
`

// WriteSVG draws the plans of preemption that the change brings about: the
// domain of each and its machines, the victims by class and whom they serve,
// the domains that were tried, and until when machines are held. When the change
// preempts nobody, it draws what would be preempted if nothing could be bought.
func (a *Answer) WriteSVG(out io.Writer) error {
	of, says := &a.WhatIf, "What is preempted"
	if of.Preempt == 0 {
		of, says = &a.WithoutBuying, "What would be preempted if nothing could be bought"
	}
	pictures, err := picturesOf(of.world, of.answer)
	if err != nil {
		return err
	}
	return writePictures(out, says, pictures)
}

func writePictures(out io.Writer, says string, pictures []picture) error {
	s := svg{y: svgMargin + 8}
	s.text(svgMargin, "title", "%s", says)
	s.next()
	if len(pictures) == 0 {
		s.text(svgMargin, "quiet", "Nobody.")
		s.next()
	}
	for i := range pictures {
		s.plan(&pictures[i])
	}
	s.legend()
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img"><style>%s</style><rect class="ground" width="100%%" height="100%%"/>`, svgWidth, s.y+svgMargin, svgStyle)
	fmt.Fprint(w, s.b.String())
	fmt.Fprint(w, "</svg>\n")
	return w.Flush()
}

// svg is a picture that grows downwards.
type svg struct {
	b strings.Builder
	y int
}

func (s *svg) next() { s.y += svgLine }

// escape makes text fit for an element or an attribute: XML has no control
// characters, and those of text direction would reorder what stands beside them.
func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(terminal.Escape(text))) // a Builder takes everything
	return b.String()
}

func (s *svg) text(x int, class, format string, args ...any) {
	fmt.Fprintf(&s.b, `<text x="%d" y="%d" class="%s">%s</text>`, x, s.y, class, escape(fmt.Sprintf(format, args...)))
}

func (s *svg) plan(p *picture) {
	count := 0
	for i := range p.victims {
		count += p.victims[i].count
	}
	where := "anywhere in the shard"
	if p.key != "" {
		where = "in " + p.key + " " + p.need.Domain
	}
	s.next()
	s.text(svgMargin, "title", "%s", cut(fmt.Sprintf("%s of cluster %s", p.need.Name, p.need.Cluster), lineMax-12))
	s.next()
	if p.wants != "" {
		s.text(svgMargin, "quiet", "%s", cut("wants "+p.wants, lineMax))
		s.next()
	}
	s.text(svgMargin, "", "%s", cut(fmt.Sprintf("takes %s %s", several(count, "machine"), where), lineMax))
	s.y += svgLine / 2
	s.boxes("", p.machines, p.more)
	s.boxes("of the same gangs, elsewhere", p.elsewhere, 0)
	s.domains(p)
	s.timeline(p)
}

// boxes draws machines as squares, in rows.
func (s *svg) boxes(says string, list []box, more int) {
	if len(list) == 0 {
		return
	}
	if says != "" {
		s.text(svgMargin, "quiet", "%s", says)
		s.y += svgLine / 2
	}
	for i := range list[:min(len(list), boxesMax)] {
		b := &list[i]
		title := b.id + ": " + roleNames[b.role]
		if b.of != "" {
			title += ", serves " + b.of
		}
		fmt.Fprintf(&s.b, `<rect class="r%d" x="%d" y="%d" width="%d" height="%d" rx="3"><title>%s</title></rect>`,
			b.role, svgMargin+i%boxesPerRow*(boxSize+boxGap), s.y+i/boxesPerRow*(boxSize+boxGap), boxSize, boxSize, escape(title))
	}
	rows := (min(len(list), boxesMax) + boxesPerRow - 1) / boxesPerRow
	s.y += rows*(boxSize+boxGap) + svgLine
	if more += max(len(list)-boxesMax, 0); more > 0 {
		s.text(svgMargin, "quiet", "… and %d more", more)
		s.next()
	}
}

// domains lists what was tried.
func (s *svg) domains(p *picture) {
	tried := p.why.Why.Preemption
	if p.key == "" || len(tried) == 0 {
		return
	}
	s.text(svgMargin, "quiet", "domains that were tried")
	s.next()
	for i := range tried[:min(len(tried), domainsMax)] {
		s.text(svgMargin+12, "", "%s", cut(cut(tried[i].Domain, nameMax)+": "+verdictOf(&tried[i]), lineMax))
		s.next()
	}
	if more := len(tried) - domainsMax; more > 0 {
		s.text(svgMargin+12, "quiet", "… and %d more", more)
		s.next()
	}
}

// whyNot says, for the rules by which domains are compared, what speaks against the one that was not chosen.
var whyNot = map[string]string{
	"excess": "another has idle work", "band": "another hurts less", "gangs": "another breaks fewer gangs", "destroyed": "another destroys less", "grace": "another is free sooner",
	"machines": "another loses fewer machines", "phase1_domain": "its machines are elsewhere", "value": "alike; another comes first by name",
}

// verdictOf says what came of a domain, and what taking it would have destroyed.
func verdictOf(t *engine.PreemptionExplanation) string {
	out := "cannot be freed for it"
	switch {
	case t.Rejected == "top_domains":
		out = "not tried: others promise more"
	case t.Covered && t.Rejected == "":
		out = "chosen"
	case t.Covered:
		out = "not chosen"
		if why := whyNot[t.Rejected]; why != "" {
			out += ": " + why
		}
	}
	if t.Cost.Machines > 0 {
		out += fmt.Sprintf(" (%s, %s)", several(t.Cost.Machines, "machine"), several(t.Cost.Gangs, "gang"))
	}
	if t.Candidates > 0 {
		out += fmt.Sprintf(", %d candidates", t.Candidates)
	}
	return out
}

// several is a number and what it counts.
func several(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// timeline draws until when victims may stay, and until when machines are held.
func (s *svg) timeline(p *picture) {
	longest := int32(1)
	for i := range p.victims {
		longest = max(longest, p.victims[i].grace)
	}
	whole := float64(longest + configureSeconds)
	x := func(seconds int32) int {
		return barLeft + int(float64(seconds)/whole*float64(svgWidth-svgMargin-barLeft))
	}
	s.y += svgLine / 2
	s.text(svgMargin, "quiet", "what is taken, and its notice")
	s.text(x(0), "quiet", "now")
	s.text(x(longest)-30, "quiet", "%d s", longest)
	s.next()
	for i := range p.victims[:min(len(p.victims), victimsMax)] {
		v := &p.victims[i]
		who := v.need
		if who == "" {
			who = "no Need"
		}
		s.text(svgMargin+12, "", "%s", cut(fmt.Sprintf("%d × %s of %s", v.count, who, v.cluster), nameMax))
		fmt.Fprintf(&s.b, `<rect class="r%d" x="%d" y="%d" width="%d" height="%d" rx="3"><title>%s</title></rect>`,
			v.role, x(0), s.y-barHeight+3, max(x(v.grace)-x(0), 2), barHeight, escape(roleNames[v.role]+": "+strings.Join(v.ids[:min(len(v.ids), victimsMax)], " ")))
		s.next()
	}
	if more := len(p.victims) - victimsMax; more > 0 {
		s.text(svgMargin+12, "quiet", "… and those of %d more", more)
		s.next()
	}
	s.text(svgMargin+12, "", "held for %s", cut(p.need.Name, nameMax-9))
	fmt.Fprintf(&s.b, `<rect class="wait" x="%d" y="%d" width="%d" height="%d" rx="3"><title>held until bound, at the latest %d s from now</title></rect>`,
		x(0), s.y-barHeight+3, x(longest+configureSeconds)-x(0), barHeight, longest+configureSeconds)
	s.next()
}

// cut shortens a text to so many characters.
func cut(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}

func (s *svg) legend() {
	s.next()
	x := svgMargin
	for r, name := range roleNames {
		if x+boxSize+26+7*len(name) > svgWidth {
			x = svgMargin
			s.next()
		}
		fmt.Fprintf(&s.b, `<rect class="r%d" x="%d" y="%d" width="%d" height="%d" rx="3"/>`, r, x, s.y-12, boxSize, boxSize)
		s.text(x+boxSize+6, "", "%s", name)
		x += boxSize + 26 + 7*len(name)
	}
}
