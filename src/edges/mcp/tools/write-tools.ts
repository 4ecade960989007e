import { z } from 'zod';
import { writeMemory } from '../../../operations/cognition/memories.ts';
import { revokeDevice } from '../../../operations/devices/device-keys.ts';
import { registerDevice } from '../../../operations/devices/device-registration.ts';
import { createGroup, joinGroup } from '../../../operations/homes/groups.ts';
import { createHome } from '../../../operations/homes/homes.ts';
import { ADDITIVE, DESTRUCTIVE, defineOperationTool } from './tool.ts';

// Tools that change records.

/** Without the secret: everything that a model reads may be disclosed to others. */
const withoutSecret = registerDevice.output.extend({
  device_secret: z.null().meta({ description: 'Always null: secrets are not returned by tools' }),
  next_step: z
    .string()
    .nullable()
    .meta({ description: 'The action of an admin without which the device cannot connect; null if none is needed' }),
});

/** A device that was registered without a public key has a secret that was not shown. */
export const secretStep = (id: string): string =>
  `An admin gets the first secret of the device with POST /v1/device/${id}/rotate-secret, twinkeep devices rotate ${id}, or Rotate key on the page of the device in the console. It is shown once and has to be stored on the device.`;

const provisionDevice = defineOperationTool({
  name: 'provision_device',
  title: 'Register a device',
  description:
    'Registers a device. With public_key (and signing_alg ed25519) the device is ready at once, with its own key pair. Without it, the secret is not returned here: an admin gets the first one with POST /v1/device/{id}/rotate-secret.',
  annotations: ADDITIVE,
  operation: registerDevice,
  view: {
    schema: withoutSecret,
    of: (registered) => ({
      ...registered,
      device_secret: null,
      next_step: registered.device_secret === null ? null : secretStep(registered.device_id),
    }),
  },
  summary: ({ next_step }) =>
    next_step === null
      ? 'The device is registered and can connect with its own key.'
      : `The device is registered. Its secret is not returned here. ${next_step}`,
});

const WAITS_HINT =
  'Nothing was changed: the tenant’s policy requires a person or another user to confirm it outside of this connection. Refer the user to the pending confirmations.';

const decommissionDevice = defineOperationTool({
  name: 'decommission_device',
  title: 'Revoke a device',
  description:
    'Revokes a device: closes its session, invalidates its keys for good and closes its commands. Get the consent of the user first. If the policy requires a confirmation by a person or another user, nothing is changed and the answer has a change_id. Only an admin can reinstate it, with a new key.',
  annotations: { ...DESTRUCTIVE, idempotentHint: true },
  operation: revokeDevice,
  arguments: { names: { device_id: 'id' } },
  summary: (answer) => ('change_id' in answer ? WAITS_HINT : 'The device is revoked.'),
});

const setupHome = defineOperationTool({
  name: 'setup_home',
  title: 'Create a home',
  description: 'Creates a home. Check list_homes first: two homes may have the same name.',
  annotations: ADDITIVE,
  operation: createHome,
  summary: () => 'The home is created.',
});

const createDeviceGroup = defineOperationTool({
  name: 'create_device_group',
  title: 'Create a group',
  description: 'Creates a group of devices that are commanded together. Its slug is derived from its name.',
  annotations: ADDITIVE,
  operation: createGroup,
  summary: () => 'The group is created. Use its slug from now on.',
});

const addDevicesToGroup = defineOperationTool({
  name: 'add_devices_to_group',
  title: 'Add devices to a group',
  description: 'Adds devices to a group. Devices that are already in it stay.',
  annotations: { ...ADDITIVE, idempotentHint: true },
  operation: joinGroup,
  arguments: { omit: ['device_id'], alsoRequired: ['device_ids'] },
  summary: () => 'The devices are in the group.',
});

const writeAgentMemory = defineOperationTool({
  name: 'write_agent_memory',
  title: 'Write a memory',
  description:
    'Stores an observation, a preference or a routine for later; all users and agents of the tenant can read it. Write facts, not instructions. Routines and preferences that you write are suggestions: they have no effect on goals until a person adopts them. When a tenant has too many memories, the oldest observations are deleted.',
  annotations: ADDITIVE,
  operation: writeMemory,
  summary: ({ memory }) =>
    memory.suggestion
      ? 'The memory is stored as a suggestion: a person can adopt it with twinkeep memories adopt, or on the page Memories of the console.'
      : 'The memory is stored.',
});

export const provisioningTools = [provisionDevice, decommissionDevice];
export const managementTools = [setupHome, createDeviceGroup, addDevicesToGroup];
export const otherWriteTools = { writeAgentMemory };
