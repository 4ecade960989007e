import { commandDevices, commandGroup, commandRoom } from '../../../operations/commands/command-batches.ts';
import { getCommand, listCommands } from '../../../operations/commands/command-view.ts';
import { cancelCommand, commandDevice, confirmCommand } from '../../../operations/commands/commands.ts';
import { listTenantCommands } from '../../../operations/commands/tenant-commands.ts';
import type { Route } from '../route.ts';

export const commandRoutes: Route[] = [
  { method: 'POST', path: '/device/{deviceId}/command', operation: commandDevice, success: 202 },
  { method: 'POST', path: '/device/{deviceId}/command/confirm', operation: confirmCommand, success: 202 },
  { method: 'POST', path: '/devices/command', operation: commandDevices, success: 200 },
  { method: 'POST', path: '/rooms/{roomId}/command', operation: commandRoom, success: 200 },
  { method: 'POST', path: '/groups/{groupSlug}/command', operation: commandGroup, success: 200 },
  { method: 'GET', path: '/device/{deviceId}/commands', operation: listCommands, success: 200 },
  { method: 'GET', path: '/commands', operation: listTenantCommands, success: 200 },
  { method: 'GET', path: '/commands/{id}', operation: getCommand, success: 200 },
  { method: 'POST', path: '/commands/{id}/cancel', operation: cancelCommand, success: 200 },
];
