package clusterapi

import "regexp"

// noCapacity are messages of clouds that have no capacity of a kind now, or no quota left for it.
var noCapacity = regexp.MustCompile(`(?i)` +
	`Insufficient(Instance|Host|ReservedInstance|FreeAddresses)?\w*Capacity|UnfulfillableCapacity|MaxSpotInstanceCountExceeded|VcpuLimitExceeded|InstanceLimitExceeded` + // AWS
	`|SkuNotAvailable|(Zonal)?AllocationFailed|OverconstrainedAllocationRequest|QuotaExceeded|OperationNotAllowed.*quota` + // Azure
	`|ZONE_RESOURCE_POOL_EXHAUSTED|QUOTA_EXCEEDED|stockout` + // Google
	`|No valid host was found|quota exceeded|exceed(ed|s)? (the )?quota` + // OpenStack, Kubernetes
	`|resource_unavailable|resource_limit_exceeded` + // Hetzner
	`|insufficient (instance |host )?capacity|out of (stock|capacity)|no available host`) // vSphere, Metal3, others

// outOfStock tells whether a message says that there is no capacity.
func (d *Driver) outOfStock(message string) bool {
	if noCapacity.MatchString(message) {
		return true
	}
	for _, p := range d.settings.OutOfStock {
		if p.MatchString(message) {
			return true
		}
	}
	return false
}
