import { z } from 'zod';
import { done, type Outcome } from '../../domain/refusals.ts';
import { tagFilter } from '../devices/tags.ts';
import { category, idOf, slug } from '../inputs.ts';
import { type Answer, operation } from '../operation.ts';
import {
  commandTargets,
  groupDeviceIds,
  MAX_TARGETS,
  roomDeviceIds,
  type TargetResult,
  taggedDeviceIds,
  targetResult,
} from './batch-dispatch.ts';
import { commandFields } from './command-request.ts';

const results = z.object({ results: z.array(targetResult.meta({ id: 'TargetResult' })) }).meta({ id: 'TargetResults' });
type Results = Answer<z.infer<typeof results>>;

async function resultsAnswer(entries: Promise<Outcome<TargetResult[]>>): Promise<Outcome<Results>> {
  const all = await entries;
  return all.ok ? done({ body: { results: all.value } }) : all;
}

const deviceIds = z
  .array(z.string().min(1).max(64).toLowerCase())
  .min(1)
  .refine((ids) => new Set(ids).size <= MAX_TARGETS, `must not have more than ${MAX_TARGETS} devices`);

const targetTags = tagFilter.meta({
  description: `In place of device_ids: all devices that have all of these tags and are not revoked, if they are ${MAX_TARGETS} at most`,
});

export const commandDevices = operation({
  name: 'commandDevices',
  summary: `Command up to ${MAX_TARGETS} devices at once, by their ids or by tags; the answer has one result per device`,
  input: z
    .strictObject({ device_ids: deviceIds.optional(), tags: targetTags.optional(), ...commandFields })
    .refine(({ device_ids, tags }) => (device_ids === undefined) !== (tags === undefined), {
      path: ['device_ids'],
      message: 'or tags is required, and not both',
    }),
  bodyRules: { oneOf: [{ required: ['device_ids'] }, { required: ['tags'] }] },
  output: results,
  role: 'user',
  scope: 'execute:commands',
  restrictedKeys: 'actions',
  changes: true,
  audit: 'journal',
  example: { input: { device_ids: ['0195d9a2-7f00-7000-8000-000000000001'], action: 'turn_off' } },
  needs: ['actors', 'artifacts', 'clock', 'flags', 'log', 'manifests', 'newId', 'seal', 'sessions', 'store'],
  run(services, call) {
    const { device_ids, tags, ...input } = call.input;
    return resultsAnswer(
      commandTargets(services, call, input, async () =>
        tags === undefined ? done([...new Set(device_ids)]) : taggedDeviceIds(services, call.caller, tags),
      ),
    );
  },
});

export const commandRoom = operation({
  name: 'commandRoom',
  summary: 'Command the devices of a room, or those of one category in it',
  input: z.strictObject({
    roomId: idOf('room'),
    capability: category.optional(),
    ...commandFields,
  }),
  output: results,
  role: 'user',
  scope: 'execute:commands',
  restrictedKeys: 'actions',
  changes: true,
  audit: 'journal',
  refuses: ['NOT_FOUND'],
  example: { input: { action: 'set_brightness', params: { level: 20 }, capability: 'light' } },
  needs: ['actors', 'artifacts', 'clock', 'flags', 'log', 'manifests', 'newId', 'seal', 'sessions', 'store'],
  run(services, call) {
    const { roomId, capability, ...input } = call.input;
    return resultsAnswer(
      commandTargets(services, call, input, () => roomDeviceIds(services, call.caller, roomId, capability)),
    );
  },
});

export const commandGroup = operation({
  name: 'commandGroup',
  summary: 'Command the devices of a group',
  input: z.strictObject({ groupSlug: slug, ...commandFields }),
  output: results,
  role: 'user',
  scope: 'execute:commands',
  restrictedKeys: 'actions',
  changes: true,
  audit: 'journal',
  refuses: ['NOT_FOUND'],
  example: { input: { action: 'turn_off' } },
  needs: ['actors', 'artifacts', 'clock', 'flags', 'log', 'manifests', 'newId', 'seal', 'sessions', 'store'],
  run(services, call) {
    const { groupSlug, ...input } = call.input;
    return resultsAnswer(commandTargets(services, call, input, () => groupDeviceIds(services, call.caller, groupSlug)));
  },
});
