import { afterEach, beforeEach, expect } from 'vitest';
import { eventLoopTurns } from '../../support/clock.ts';
import { Device } from './client.ts';
import { EdgeHarness, type OpenMqttEdge, type TestDevice } from './edge-harness.ts';

export let service: EdgeHarness;
export let edge: OpenMqttEdge;
export let device: TestDevice;

/** Prepares a service with one `device` before each test of the file; closes the edge that the test opened. */
export function withEdge(): void {
  beforeEach(() => {
    service = new EdgeHarness();
    device = service.addDevice();
  });
  afterEach(() => edge.close());
}

export async function openEdge(parts: Parameters<EdgeHarness['open']>[0] = {}): Promise<void> {
  edge = await service.open(parts);
}

/** Opens the edge and connects `device`. */
export async function open(parts: Parameters<EdgeHarness['open']>[0] = {}): Promise<Device> {
  await openEdge(parts);
  return Device.connect(service, device, edge.port);
}

/** A latch: each call of `wait` blocks until the test opens it. */
export function latch() {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, wait: () => opened };
}

/** Polls without timers, because the test has replaced the timer that `eventually` uses. */
export async function turnsUntil(check: () => boolean): Promise<void> {
  const until = performance.now() + 8_000;
  while (!check() && performance.now() < until) await eventLoopTurns(1);
  expect(check()).toBe(true);
}
