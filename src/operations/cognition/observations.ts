import { z } from 'zod';
import { jsonBytes } from '../../domain/json/value.ts';
import type { Proposal } from '../../domain/proposal.ts';
import { done } from '../../domain/refusals.ts';
import { jsonObject } from '../../domain/request-fields.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import { CommitUnknown } from '../../store/contract.ts';
import { stripRequest } from '../commands/command-request.ts';
import { findDevice } from '../devices/device-view.ts';
import { idOf, notFound } from '../inputs.ts';
import { operation, tenantOf } from '../operation.ts';
import { note, sidecarRefusal } from './goals.ts';
import { notifySidecar } from './sidecar-events.ts';

/** Observations of one tenant that wait for the sidecar; beyond it the oldest are dropped. */
const MAX_OPEN_OBSERVATIONS = 200;
const PREEMPTED_REASON = 'The sidecar did not respond before newer observations replaced this one.';
const MAX_DATA_BYTES = 16 * 1024;

export const postObservation = operation({
  name: 'postObservation',
  summary: 'Send an observation to the sidecar; its proposal waits until a user accepts it',
  input: z.strictObject({
    device_id: idOf('device'),
    data: jsonObject
      .refine((data) => jsonBytes(data) <= MAX_DATA_BYTES, `is over ${MAX_DATA_BYTES} bytes`)
      .meta({ description: 'Measurements, at most 16 KiB', examples: [{ humidity: 81 }] }),
    context: note,
  }),
  output: z
    .object({ status: z.literal('OBSERVATION_RECEIVED'), proposal_id: uuid })
    .meta({ id: 'ObservationReceived' }),
  role: 'user',
  scope: 'execute:intents',
  changes: true,
  auditSubject: (_, { proposal_id }) => `proposal:${proposal_id}`,
  stoppedBy: 'cognition_disabled',
  refuses: ['NOT_FOUND', 'SIDECAR_UNAVAILABLE'],
  example: {
    input: { device_id: '0195d9a2-7f00-7000-8000-000000000001', data: { humidity: 81 }, context: 'After a shower' },
    output: { status: 'OBSERVATION_RECEIVED', proposal_id: '0195d9a2-7f00-7000-8000-00000000000e' },
  },
  needs: ['actors', 'clock', 'newId', 'sidecar', 'store'],
  async run(services, { input, caller, idempotent }) {
    const device = await findDevice(services, caller, input.device_id);
    if (!device.ok) return notFound('device');
    const unavailable = sidecarRefusal(services);
    if (unavailable !== null) return unavailable;
    const proposal: Proposal = {
      ...{ id: services.newId(), tenantId: tenantOf(caller), deviceId: input.device_id },
      ...{ homeId: device.value.snapshot.context.fixed.homeId, data: input.data, note: input.context || null },
      ...{ askedBy: stripRequest(caller.principal), status: 'pending', reason: null, steps: [] },
      ...{ memories: null, phase: 'thinking', planId: null, createdAt: services.clock.now(), spokenAt: null },
    };
    const answer = { body: { status: 'OBSERVATION_RECEIVED' as const, proposal_id: proposal.id } };
    const notifyOpened = () => notifySidecar(services, proposal, { type: 'opened' });
    const inserted = services.store.proposals.insert(
      proposal,
      MAX_OPEN_OBSERVATIONS,
      PREEMPTED_REASON,
      idempotent?.toRow(answer),
    );
    const preempted = await inserted.catch((fault: unknown) => {
      // It may be stored, and a repeated request gets its answer. A context that does not exist is not sent.
      if (fault instanceof CommitUnknown) notifyOpened();
      throw fault;
    });
    for (const id of preempted) {
      notifySidecar(
        services,
        { ...proposal, id },
        { type: 'interrupted', reason: 'PREEMPTED', detail: PREEMPTED_REASON },
      );
    }
    notifyOpened();
    return done(answer);
  },
});
