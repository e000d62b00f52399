// Karpenter, with the cloud that its kwok provider plays: a Node for each claim, and no machine. What is changed of its
// own main is the cloud: see cloud.go.
package main

import (
	"os"

	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	"sigs.k8s.io/karpenter/pkg/controllers"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/operator"
)

func main() {
	ctx, op := operator.NewOperator()
	types, err := kwok.ConstructInstanceTypes(ctx)
	if err != nil {
		log.FromContext(ctx).Error(err, "instance types cannot be read")
		os.Exit(1)
	}
	played := &cloud{CloudProvider: kwok.NewCloudProvider(ctx, byClaim{op.GetClient()}, types), nodes: op.GetClient(), types: types, faults: os.Getenv("CLOUD_FAULTS_FILE")}
	decorated := overlay.Decorate(played, op.GetClient(), op.InstanceTypeStore)
	if err := op.Add(manager.RunnableFunc(played.collect)); err != nil {
		log.FromContext(ctx).Error(err, "the cloud cannot be played")
		os.Exit(1)
	}
	op.WithControllers(ctx, controllers.NewControllers(
		ctx, op.Manager, op.Clock, op.GetClient(), op.EventRecorder, decorated, played, state.NewCluster(op.Clock, op.GetClient(), decorated), op.InstanceTypeStore,
	)...).Start(ctx)
}
