package bigfleetv1alpha1_test

// contract is the protocol: every service, message and enumeration of
// bigfleet.v1alpha1. R is repeated; "of" names the oneof that a field is in.
const contract = `
service CapacityProvider
  Create CreateRequest -> TransitionAck; Configure ConfigureRequest -> TransitionAck; Drain DrainRequest -> TransitionAck;
  Delete DeleteRequest -> TransitionAck; Get MachineRef -> Machine; List ListFilter -> MachineList
service Shard
  Session stream OperatorMessage -> stream ShardMessage
service ShardRead
  InspectNeeds InspectNeedsRequest -> stream InspectNeedsResponse
service Coordinator
  ReportShard ShardReport -> ReportAck; AssignDomain AssignDomainRequest -> AssignDomainResponse;
  UnassignDomain UnassignDomainRequest -> UnassignDomainResponse; RemoveShard RemoveShardRequest -> RemoveShardResponse;
  ListShards ListShardsRequest -> ListShardsResponse; ListDomainAssignments ListDomainAssignmentsRequest -> ListDomainAssignmentsResponse;
  ListShardReports ListShardReportsRequest -> ListShardReportsResponse; JoinRaftCluster JoinRaftClusterRequest -> JoinRaftClusterResponse;
  SnapshotSave SnapshotSaveRequest -> stream SnapshotSaveChunk
message ClusterCapacityNeeds
  1 cluster_id: string; 2 timestamp_unix_nanos: int64; 3 needs: R CapacityNeed
message CapacityNeed
  1 requirements: R NodeSelectorRequirement; 2 aggregate_resources: map<string,string>; 3 priority: int32; 4 reserved; 5 spread: R TopologySpread;
  6 interruption_penalty_bucket: PenaltyBucket; 7 reclamation_penalty_bucket: PenaltyBucket; 8 min_unit: map<string,string>; 9 group: string
message NodeSelectorRequirement
  1 key: string; 2 operator: NodeSelectorRequirement.Operator; 3 values: R string
enum NodeSelectorRequirement.Operator
  0 OPERATOR_UNSPECIFIED; 1 OPERATOR_IN; 2 OPERATOR_NOT_IN; 3 OPERATOR_EXISTS; 4 OPERATOR_DOES_NOT_EXIST; 5 OPERATOR_SAME
message TopologySpread
  1 topology_key: string; 2 max_skew: int32; 3 when_unsatisfiable: TopologySpread.WhenUnsatisfiable
enum TopologySpread.WhenUnsatisfiable
  0 WHEN_UNSATISFIABLE_UNSPECIFIED; 1 WHEN_UNSATISFIABLE_DO_NOT_SCHEDULE; 2 WHEN_UNSATISFIABLE_SCHEDULE_ANYWAY
enum PenaltyBucket
  0 PENALTY_BUCKET_UNSPECIFIED; 1 PENALTY_BUCKET_ZERO; 2 PENALTY_BUCKET_HALF_DOLLAR; 3 PENALTY_BUCKET_1; 4 PENALTY_BUCKET_2; 5 PENALTY_BUCKET_4;
  6 PENALTY_BUCKET_8; 7 PENALTY_BUCKET_16; 8 PENALTY_BUCKET_32; 9 PENALTY_BUCKET_64; 10 PENALTY_BUCKET_128; 11 PENALTY_BUCKET_256;
  12 PENALTY_BUCKET_512; 13 PENALTY_BUCKET_1024; 14 PENALTY_BUCKET_2048; 15 PENALTY_BUCKET_4096; 16 PENALTY_BUCKET_8192; 17 PENALTY_BUCKET_16384;
  18 PENALTY_BUCKET_32768; 19 PENALTY_BUCKET_65536; 20 PENALTY_BUCKET_131072; 21 PENALTY_BUCKET_262144; 22 PENALTY_BUCKET_524288;
  23 PENALTY_BUCKET_1048576; 24 PENALTY_BUCKET_2097152; 25 PENALTY_BUCKET_4194304; 26 PENALTY_BUCKET_8388608; 27 PENALTY_BUCKET_PINNED
enum MachineState
  0 MACHINE_STATE_UNSPECIFIED; 1 MACHINE_STATE_SPECULATIVE; 2 MACHINE_STATE_CREATING; 3 MACHINE_STATE_IDLE; 4 MACHINE_STATE_CONFIGURING;
  5 MACHINE_STATE_CONFIGURED; 6 MACHINE_STATE_DRAINING; 7 MACHINE_STATE_DELETING; 8 MACHINE_STATE_FAILED
enum CapacityType
  0 CAPACITY_TYPE_UNSPECIFIED; 1 CAPACITY_TYPE_BARE_METAL; 2 CAPACITY_TYPE_RESERVED; 3 CAPACITY_TYPE_ON_DEMAND; 4 CAPACITY_TYPE_SPOT
message HostRef
  1 provider: string; 2 ref: string
message Resources
  1 resources: map<string,string>
message Machine
  1 id: string; 2 state: MachineState; 3 host: HostRef; 4 instance_type: string; 5 zone: string; 6 capacity_type: CapacityType;
  7 price_per_hour: double; 8 interruption_probability: double; 9 resources: Resources; 10 labels: map<string,string>; 11 reserved;
  12 last_error: string; 13 allocatable: Resources; 14 cluster: string; 15 shard_metadata: map<string,string>
message MachineRef
  1 id: string
message MachineList
  1 machines: R Machine; 2 revision: bytes
message ListFilter
  1 states: R MachineState; 2 reserved; 3 reserved; 4 max_results: int32; 5 since_revision: bytes
message CreateRequest
  1 machine_id: string; 2 reserved; 3 shard_id: string; 4 shard_epoch: int64; 5 sequence_number: int64
message ConfigureRequest
  1 machine_id: string; 2 cluster_id: string; 3 bootstrap_blob: bytes; 4 shard_id: string; 5 shard_epoch: int64; 6 sequence_number: int64;
  7 shard_metadata: map<string,string>
message DrainRequest
  1 machine_id: string; 2 grace_period_seconds: int64; 3 shard_id: string; 4 shard_epoch: int64; 5 sequence_number: int64
message DeleteRequest
  1 machine_id: string; 2 shard_id: string; 3 shard_epoch: int64; 4 sequence_number: int64
message TransitionAck
  1 operation_id: string; 2 machine: Machine
message OperatorMessage
  1 hello: Hello of payload; 2 rollup: ClusterCapacityNeeds of payload; 3 bootstrap_response: BootstrapBlobResponse of payload;
  4 reclaim_ack: ReclaimAck of payload
message ShardMessage
  1 ack: Acknowledgement of payload; 2 bootstrap_request: BootstrapRequest of payload; 3 reclaim_instruction: ReclaimInstruction of payload;
  4 node_state_update: NodeStateUpdate of payload; 5 available_capacity: AvailableCapacityUpdate of payload
message Hello
  1 cluster_id: string; 2 reserved; 3 protocol_version: string
message Acknowledgement
  1 echo: string; 2 coordinator_term: int64; 3 shard_epoch: int64
message BootstrapRequest
  1 request_id: string; 2 requirements: R NodeSelectorRequirement; 3 cluster_id: string
message BootstrapBlobResponse
  1 request_id: string; 2 user_data: bytes; 3 ttl_seconds: int64; 4 error: string
message ReclaimInstruction
  1 instruction_id: string; 2 nodes: R string; 3 grace_period_seconds: int64; 4 preemptor_priority: int32
message ReclaimAck
  1 instruction_id: string; 2 nodes_started: int32
message NodeStateUpdate
  1 supersedes_key: string; 2 machine_id: string; 3 cluster_id: string; 4 state: MachineState; 5 node_name: string; 6 provider_id: string; 7 reserved;
  8 last_error: string; 9 labels: map<string,string>; 10 resources: Resources; 11 taints: R Taint
message Taint
  1 key: string; 2 value: string; 3 effect: string
message AvailableCapacityUpdate
  1 supersedes_key: string; 2 requirements: R NodeSelectorRequirement; 3 resources: Resources; 4 available_count: int32;
  5 confidence: AvailableCapacityUpdate.Confidence; 6 cost_per_hour: double; 7 reserved; 8 reserved; 9 reserved
enum AvailableCapacityUpdate.Confidence
  0 CONFIDENCE_UNSPECIFIED; 1 CONFIDENCE_NONE; 2 CONFIDENCE_LOW; 3 CONFIDENCE_MEDIUM; 4 CONFIDENCE_HIGH
message InspectNeedsRequest
  1 cluster_id: string; 2 limit: int32
message InspectNeedsResponse
  1 header: InspectNeedsHeader of frame; 2 need: NeedView of frame
message InspectNeedsHeader
  1 cycle: int64; 2 computed_at_unix_nanos: int64; 3 total_needs: int32
message NeedView
  1 need: CapacityNeed; 2 cluster_id: string; 3 arrival_unix_nanos: int64; 4 profile_fingerprint: string; 5 satisfied: bool;
  6 residual_deficit: Resources; 7 claimed_machine_count: int32; 8 bootstrap_count: int32; 9 provision_count: int32; 10 same_domain: string;
  11 same_satisfiable: bool; 12 acquisition_parked: bool; 13 parked_age_cycles: int32; 14 age_cycles_unmet: int32; 15 unmet_reason: UnmetReason;
  16 matching_supply: MatchingSupply; 17 preemption: PreemptionSummary; 18 same_candidates: R DomainCoverage
message MatchingSupply
  1 idle: int32; 2 configured: int32; 3 speculative: int32; 4 capped: bool
message PreemptionSummary
  1 victims_found: int32; 2 capacity_freed: Resources
message DomainCoverage
  1 domain: string; 2 coverage_per_mille: int32; 3 satisfiable: bool
enum UnmetReason
  0 UNMET_REASON_UNSPECIFIED; 1 UNMET_REASON_PRIORITY_STARVED; 2 UNMET_REASON_NO_MATCHING_SUPPLY; 3 UNMET_REASON_TOPOLOGY_UNSATISFIABLE;
  4 UNMET_REASON_PREEMPTION_EXHAUSTED
message JoinRaftClusterRequest
  1 node_id: string; 2 raft_address: string
message JoinRaftClusterResponse
message SnapshotSaveRequest
message SnapshotSaveChunk
  1 meta_json: bytes of payload; 2 data: bytes of payload
message AssignDomainRequest
  1 topology_key: string; 2 topology_value: string; 3 shard_id: string
message AssignDomainResponse
message UnassignDomainRequest
  1 topology_key: string; 2 topology_value: string
message UnassignDomainResponse
message RemoveShardRequest
  1 shard_id: string
message RemoveShardResponse
message ListShardsRequest
message ListShardsResponse
  1 shards: R ShardRegistryEntry
message ShardRegistryEntry
  1 shard_id: string; 2 address: string; 3 registered_at_unix_ns: int64; 4 last_heartbeat_unix_ns: int64
message ListDomainAssignmentsRequest
message ListDomainAssignmentsResponse
  1 assignments: R DomainAssignment
message DomainAssignment
  1 topology_key: string; 2 topology_value: string; 3 shard_id: string
message ShardReport
  1 shard_id: string; 2 cycle: int64; 3 timestamp_unix_nanos: int64; 4 shard_epoch: int64; 5 summary: ShardSummary; 6 shortfalls: R Shortfall;
  7 instruction_acks: R InstructAck; 8 shard_address: string
message ShardSummary
  1 total_machines: int32; 2 free_machines: int32; 3 per_instance_type_counts: map<string,int32>; 4 per_zone_counts: map<string,int32>; 5 reserved;
  6 reserved; 7 provider_address: string
message Shortfall
  1 requirements: R NodeSelectorRequirement; 2 deficit: Resources; 3 priority: int32; 4 reserved; 5 age_cycles: int32;
  6 interruption_penalty_bucket: PenaltyBucket
message ListShardReportsRequest
  1 shard_id: string
message ListShardReportsResponse
  1 reports: R ShardReportSnapshot
message ShardReportSnapshot
  1 shard_id: string; 2 cycle: int64; 3 received_at_unix_ns: int64; 4 summary: ShardSummary; 5 shortfalls: R Shortfall
message ReportAck
  1 coordinator_term: int64; 2 acknowledged: bool; 3 instructions: R CoordinatorInstruction
message CoordinatorInstruction
  1 coordinator_term: int64; 2 sequence_number: int64; 3 instruction_id: string; 4 assign_domain: AssignDomain of payload;
  5 unassign_domain: UnassignDomain of payload; 6 reassign_speculative: ReassignSpeculative of payload;
  7 cross_shard_drain: CrossShardDrain of payload; 8 transfer_ownership: TransferOwnership of payload
message AssignDomain
  1 topology_key: string; 2 topology_value: string
message UnassignDomain
  1 topology_key: string; 2 topology_value: string
message ReassignSpeculative
  1 machine_ids: R string
message CrossShardDrain
  1 machine_ids: R string; 2 preemptor_priority: int32
message TransferOwnership
  1 machine_ids: R string; 2 from_shard_id: string; 3 to_shard_id: string
message InstructAck
  1 instruction_id: string; 2 outcome: InstructAck.Outcome; 3 reason: string
enum InstructAck.Outcome
  0 OUTCOME_UNSPECIFIED; 1 OUTCOME_ACCEPTED; 2 OUTCOME_REJECTED_STALE; 3 OUTCOME_REJECTED_INVALID; 4 OUTCOME_FAILED
`
