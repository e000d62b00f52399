package main

import (
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/journal"
)

// domainsFile holds the domains of a shard, beside the journal.
const domainsFile = "domains"

// keptDomains are a shard's domains as its journal knows them.
type keptDomains struct {
	shard   *shard.Shard
	journal *journal.Journal
}

func (k *keptDomains) Lost() bool              { return k.journal.Knowledge() == journal.Lost }
func (k *keptDomains) Domains() []shard.Domain { return k.shard.Domains() }
func (k *keptDomains) Confirm(ever bool)       { k.journal.Confirm(ever) }

// knownDomains says what a journal knows of domains in the shard's terms.
func knownDomains(j *journal.Journal) func() shard.DomainKnowledge {
	return func() shard.DomainKnowledge {
		switch j.Knowledge() {
		case journal.Lost:
			return shard.DomainsUnknown
		case journal.Known:
			return shard.DomainsKnown
		}
		return shard.DomainsNever
	}
}
