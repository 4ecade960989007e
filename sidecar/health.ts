import { type ServiceDefinition, status, type UntypedServiceImplementation } from '@grpc/grpc-js';

// grpc.health.v1, which container platforms ask. Its two messages have one field each: the name of a service, and how it is.

const SERVING = 1;
const NOT_SERVING = 2;

interface HealthRequest {
  service: string;
}

const decodeRequest = (request: Buffer): HealthRequest => {
  const length = request[1] ?? 0;
  // Names of services are shorter than what one byte of length tells.
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

/** `services` are known by name; the empty name is the whole server. */
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
