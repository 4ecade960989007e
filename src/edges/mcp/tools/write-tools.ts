import { z } from 'zod';
import { writeMemory } from '../../../operations/cognition/memories.ts';
import { revokeDevice } from '../../../operations/devices/device-keys.ts';
import { registerDevice } from '../../../operations/devices/device-registration.ts';
import { createGroup, joinGroup } from '../../../operations/homes/groups.ts';
import { createHome } from '../../../operations/homes/homes.ts';
import { ADDITIVE, DESTRUCTIVE, defineOperationTool } from './tool.ts';

// Tools that change records.

/** Without the secret: what a model has read, others may read. */
const withoutSecret = registerDevice.output.extend({
  device_secret: z.null().meta({ description: 'Always null: no secret is shown here' }),
});

const provisionDevice = defineOperationTool({
  name: 'provision_device',
  title: 'Register a device',
  description:
    'Registers a device. With public_key (and signing_alg ed25519) it is ready at once, with the key it made itself. Without, no secret is shown here: an admin fetches the first one by POST /v1/device/{id}/rotate-secret.',
  annotations: ADDITIVE,
  operation: registerDevice,
  shows: { schema: withoutSecret, of: (registered) => ({ ...registered, device_secret: null }) },
  words: () => 'The device is registered. Its secret is not shown here.',
});

const decommissionDevice = defineOperationTool({
  name: 'decommission_device',
  title: 'Revoke a device',
  description:
    'Shuts a device out: its session ends, its keys are dead for good, its commands are closed. Ask the user first. Only an admin can take it back, with a new key.',
  annotations: { ...DESTRUCTIVE, idempotentHint: true },
  operation: revokeDevice,
  arguments: { names: { device_id: 'id' } },
  words: () => 'The device is revoked.',
});

const setupHome = defineOperationTool({
  name: 'setup_home',
  title: 'Create a home',
  description: 'Creates a home. Look at list_homes first: two homes may have the same name.',
  annotations: ADDITIVE,
  operation: createHome,
  words: () => 'The home is created.',
});

const createDeviceGroup = defineOperationTool({
  name: 'create_device_group',
  title: 'Create a group',
  description: 'Creates a group of devices that are commanded together; its slug is made from its name.',
  annotations: ADDITIVE,
  operation: createGroup,
  words: () => 'The group is created; its slug names it from now on.',
});

const addDevicesToGroup = defineOperationTool({
  name: 'add_devices_to_group',
  title: 'Put devices into a group',
  description: 'Puts devices into a group; those that are in it stay.',
  annotations: { ...ADDITIVE, idempotentHint: true },
  operation: joinGroup,
  arguments: { omit: ['device_id'], alsoRequired: ['device_ids'] },
  words: () => 'The devices are in the group.',
});

const writeAgentMemory = defineOperationTool({
  name: 'write_agent_memory',
  title: 'Write a memory',
  description:
    'Writes down an observation, a preference or a routine for later; all of the tenant can read it. Write what was seen or said, not what somebody should do. When a tenant has too many, the oldest observations are forgotten.',
  annotations: ADDITIVE,
  operation: writeMemory,
  words: () => 'It is written down.',
});

export const provisioningTools = [provisionDevice, decommissionDevice];
export const managementTools = [setupHome, createDeviceGroup, addDevicesToGroup];
export const otherWriteTools = { writeAgentMemory };
