import { type ServiceDefinition, status, type UntypedServiceImplementation } from '@grpc/grpc-js';

// The health check service grpc.health.v1, for container platforms. Both messages have one field: the service name, and
// its status.

const SERVING = 1;
const NOT_SERVING = 2;

interface HealthRequest {
  service: string;
}

const decodeRequest = (request: Buffer): HealthRequest => {
  const length = request[1] ?? 0;
  // Assumes a length of one byte: service names are shorter than 128 bytes.
  const isNamed = request[0] === 0x0a && length < 0x80;
  return { service: isNamed ? request.subarray(2, 2 + length).toString('utf8') : '' };
};
const encodeStatus = (state: number): Buffer => Buffer.from([0x08, state]);

const method = (path: string, responseStream: boolean) => ({
  path: `/grpc.health.v1.Health/${path}`,
  requestStream: false,
  responseStream,
  requestSerialize: ({ service }: HealthRequest) => Buffer.from([0x0a, service.length, ...Buffer.from(service)]),
  requestDeserialize: decodeRequest,
  responseSerialize: encodeStatus,
  responseDeserialize: (bytes: Buffer) => bytes[1] ?? 0,
});

export const healthService: ServiceDefinition = { Check: method('Check', false) };

/** `services` are the known names; the empty name stands for the whole server. */
export const healthHandlers = (
  services: readonly string[],
  isServing: () => boolean,
): UntypedServiceImplementation => ({
  Check({ request }: { request: HealthRequest }, callback: (error: object | null, state?: number) => void) {
    const known = request.service === '' || services.includes(request.service);
    if (!known) return callback({ code: status.NOT_FOUND, details: 'unknown service' });
    callback(null, isServing() ? SERVING : NOT_SERVING);
  },
});
