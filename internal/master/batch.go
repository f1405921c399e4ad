package master

import "strconv"

// batchMost bounds a batch: a script call holds up everybody else's commands.
const batchMost = 128

// A plan orders what was taken from the queue for sending: releases and
// renewals are gathered into batches, one script call each, because a call
// costs a master far more than a key inside it. The rest goes as it comes.
//
// Commands of one name are never reordered, and never meet in one batch: a batch
// is closed before a command whose name it holds.
type plan struct {
	items []item // in the order of sending; see item.batch
	open  []item // the batch that is being gathered
	names map[string]struct{}
}

// arrange returns queue in the order of sending. The slice is reused.
func (p *plan) arrange(queue []item) []item {
	p.items = p.items[:0]
	for _, it := range queue {
		if it.claim != nil && p.holds(it.claim.name) {
			p.close()
		}
		switch {
		case !it.scripted():
			it.batch = 0
			p.items = append(p.items, it)
		case it.alone:
			it.batch = 1
			p.items = append(p.items, it)
		default:
			p.gather(it)
		}
	}
	p.close()
	return p.items
}

func (p *plan) gather(it item) {
	if len(p.open) == batchMost {
		p.close()
	}
	if len(p.open) == fewNames { // from here on holds looks them up
		if p.names == nil {
			p.names = make(map[string]struct{}, batchMost)
		}
		for i := range p.open {
			p.names[p.open[i].claim.name] = struct{}{}
		}
	}
	p.open = append(p.open, it)
	if len(p.open) > fewNames {
		p.names[it.claim.name] = struct{}{}
	}
}

// fewNames is how many names are compared one by one rather than hashed.
const fewNames = 8

// holds reports whether the open batch has a command of a name.
func (p *plan) holds(name string) bool {
	if len(p.open) > fewNames {
		_, ok := p.names[name]
		return ok
	}
	for i := range p.open {
		if p.open[i].claim.name == name {
			return true
		}
	}
	return false
}

// close ends the open batch, if there is one.
func (p *plan) close() {
	if len(p.open) == 0 {
		return
	}
	for i := range p.open {
		p.open[i].batch = 0
	}
	p.open[0].batch = len(p.open)
	p.items = append(p.items, p.open...)
	clear(p.open)
	p.open = p.open[:0]
	clear(p.names)
}

// word returns what tells the script what to do.
func (it *item) word() any {
	word := kinds[it.kind].word
	switch it.kind {
	case Set: // of a fenced claim, or it were no scripted command
		return it.claim.word
	case Acquire, Behind:
		return it.acquisition()
	case Heal:
		return "heal " + it.claim.ttl.(string) + " " + strconv.FormatInt(it.claim.fence.Load(), 10)
	case Commit:
		return word.(string) + " " + strconv.FormatInt(it.claim.fence.Load(), 10)
	case Renew:
		return word.(string) + " " + it.claim.ttl.(string)
	}
	return word
}

func (it *item) acquisition() string {
	verb, waited := "acquire", "-" // nobody could wake us, so we do not queue
	if it.kind == Behind {
		verb = "behind"
	}
	if it.listening {
		waited = it.claim.waited
	}
	word := verb + " " + it.claim.ttl.(string) + " " + waited
	if it.claim.fenced() {
		word += " " + it.claim.proposal
	}
	return word
}
