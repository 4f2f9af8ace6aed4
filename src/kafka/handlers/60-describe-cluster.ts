/** DescribeCluster: cluster id, controller and brokers (KIP-700). Asked of controllers (KIP-919), a broker says that it is none. */
import type { DescribeClusterRequest, DescribeClusterResponse } from '../../schema/types.generated.ts'
import { brokersFor, CLUSTER_OPERATIONS, errorFields, OPERATIONS_NOT_ASKED } from '../cluster-view.ts'
import { api } from '../handler.ts'

const BROKERS = 1
const CONTROLLERS = 2
const MISMATCHED_ENDPOINT_TYPE = 114
const UNSUPPORTED_ENDPOINT_TYPE = 115

export const describeCluster = api<DescribeClusterRequest, DescribeClusterResponse>({
  key: 60,
  name: 'DescribeCluster',
  versions: [0, 2],
  omissions: [],
  handle(call, request) {
    const { clusterId, nodeId } = call.broker.cluster
    const { endpointType } = request
    if (endpointType !== BROKERS) {
      const errorCode = endpointType === CONTROLLERS ? MISMATCHED_ENDPOINT_TYPE : UNSUPPORTED_ENDPOINT_TYPE
      return { errorCode, errorMessage: 'this is a broker', endpointType, clusterId, controllerId: -1, brokers: [] }
    }
    return {
      throttleTimeMs: 0,
      ...errorFields(null),
      endpointType,
      clusterId,
      controllerId: nodeId,
      brokers: brokersFor(call).map((node) => ({
        brokerId: node.nodeId,
        host: node.host,
        port: node.port,
        rack: node.rack,
        isFenced: false,
      })),
      clusterAuthorizedOperations: request.includeClusterAuthorizedOperations ? CLUSTER_OPERATIONS : OPERATIONS_NOT_ASKED,
    }
  },
  refuse: (error, request, call) => ({
    ...errorFields(error),
    endpointType: request.endpointType,
    clusterId: call.broker.cluster.clusterId,
    brokers: [],
  }),
})
