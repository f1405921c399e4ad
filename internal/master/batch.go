package master

// batchMost is the most commands in a batch: a call of the script delays the commands of other clients.
const batchMost = 128

// A plan arranges commands for sending. It gathers scripted commands into batches, one call of the script
// each, because a call costs a master far more than another key in it. Other commands stay where they
// are.
//
// Commands with the same key are never reordered. Those in one batch are executed in order, so a release
// and the next acquisition of its key share a call. The open batch is closed before a command that cannot
// join it and whose key it holds. A command for several names is a call of its own.
type plan struct {
	items []item // in the order of sending; see item.batch
	open  []item // the open batch
	names map[string]struct{}
	apart bool // a release of several names and their next acquisition do not share a call: see follows
}

// arrange returns queue in the order of sending. The slice is valid until the next arrange.
func (p *plan) arrange(queue []item) []item {
	p.items = p.items[:0]
	for _, it := range queue {
		if it.ofSet() || it.claim != nil && (it.alone || !it.scripted()) && p.holds(it.claim.name) {
			p.close()
		}
		switch {
		case !it.scripted():
			it.batch = 0
			p.items = append(p.items, it)
		case !p.apart && p.follows(&it):
			p.items[len(p.items)-1].batch = 2
			it.batch = 0
			p.items = append(p.items, it)
		case it.alone || it.ofSet():
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
	if len(p.open) == batchMost || len(p.open) > 0 && p.open[0].lua() != it.lua() {
		p.close()
	}
	if len(p.open) == fewNames { // from here on, holds uses the map
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

// fewNames is up to how many names are compared one by one instead of in a map.
const fewNames = 8

// holds reports whether the open batch has a command with this name.
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
