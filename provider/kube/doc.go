// Package kube has the common parts of drivers that make machines through Kubernetes:
// connections whose credentials rotate, tables that a watch keeps, and the check that pods
// can run on a node.
//
// # Connections
//
// An Endpoint is one API server and the credentials for it: a kubeconfig in a file or in a Secret of
// another cluster, or the service account of the pod. The text is read again every RefreshEvery, and soon after
// an answer that the credentials are refused. A change makes new clients; the old ones end with their watches.
// Exec plugins and files that a kubeconfig names are followed by client-go. A kubeconfig in a
// Secret may name neither: whoever may write the Secret would have the provider run programs.
//
// # Tables
//
// A Table holds what the driver wants to know of all objects of one kind, kept by list and watch. Its
// list is never an older one than the server has, and Await waits until the table has seen a write, so that what
// a verb did is in the next Observe.
//
// # Nodes
//
// Pods can run on a node when it is Ready, carries every label and taint that its pool declares, no taint
// that keeps pods off and is not declared, and can give pods at least what is declared. NodeWant says what is missing, and
// what the provider writes itself: labels and taints that nobody else will bring.
package kube
