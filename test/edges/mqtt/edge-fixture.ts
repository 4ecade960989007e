import { afterEach, beforeEach, expect } from 'vitest';
import type { MqttEdge } from '../../../src/edges/mqtt/edge.ts';
import { eventLoopTurns } from '../../support/clock.ts';
import { Device } from './client.ts';
import { House, type TestDevice } from './edge-harness.ts';

export let house: House;
export let edge: MqttEdge;
export let device: TestDevice;

/** Prepares a service with one `device` before each test of the file; closes the edge that the test opened. */
export function withEdge(): void {
  beforeEach(() => {
    house = new House();
    device = house.addDevice();
  });
  afterEach(() => edge.close());
}

export async function openEdge(parts: Parameters<House['open']>[0] = {}): Promise<void> {
  edge = await house.open(parts);
}

/** Opens the edge and connects `device`. */
export async function open(parts: Parameters<House['open']>[0] = {}): Promise<Device> {
  await openEdge(parts);
  return Device.connect(house, device, edge.port);
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
