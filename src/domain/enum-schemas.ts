import { z } from 'zod';
import { categoryNames } from './capability-registry.ts';
import { changeStatuses } from './change-request.ts';
import { commandStatuses, verificationStatuses } from './command.ts';
import { signingAlgs } from './device-key.ts';
import { firmwareStatuses } from './firmware.ts';
import { historyModes } from './history/rules.ts';
import { safetyClasses } from './manifest.ts';
import { memberRoles } from './membership.ts';
import { memoryKinds } from './memory.ts';
import { failurePolicies, planStatuses, stepStatuses } from './plan.ts';
import { confirmers } from './policy.ts';
import { type RefusalCode, refusals } from './refusals.ts';
import { roles } from './roles.ts';
import { telemetryMismatches } from './telemetry.ts';

/*
 * Schemas of the closed lists in requests and answers. The id is the name of the component in OpenAPI and of the enum
 * type in GraphQL; a description is added where the schema is used.
 */

export const roleSchema = z.enum(roles).meta({ id: 'Role' });
export const memberRoleSchema = z.enum(memberRoles).meta({ id: 'MemberRole' });
export const signingAlgSchema = z.enum(signingAlgs).meta({ id: 'SigningAlg' });
export const categorySchema = z.enum(categoryNames).meta({ id: 'DeviceCategory' });
export const commandStatusSchema = z.enum(commandStatuses).meta({ id: 'CommandStatus' });
export const changeStatusSchema = z.enum(changeStatuses).meta({ id: 'ChangeStatus' });
export const verificationStatusSchema = z.enum(verificationStatuses).meta({ id: 'VerificationStatus' });
export const historyModeSchema = z.enum(historyModes).meta({ id: 'HistoryMode' });
export const safetyClassSchema = z.enum(safetyClasses).meta({ id: 'SafetyClass' });
export const planStatusSchema = z.enum(planStatuses).meta({ id: 'PlanStatus' });
export const stepStatusSchema = z.enum(stepStatuses).meta({ id: 'PlanStepStatus' });
export const failurePolicySchema = z.enum(failurePolicies).meta({ id: 'FailureWay' });
export const confirmerSchema = z.enum(confirmers).meta({ id: 'Confirmer' });
export const memoryKindSchema = z.enum(memoryKinds).meta({ id: 'MemoryKind' });
export const firmwareStatusSchema = z.enum(firmwareStatuses).meta({ id: 'FirmwareStatus' });
export const telemetryMismatchSchema = z.enum(telemetryMismatches).meta({ id: 'TelemetryMismatch' });
export const refusalCodeSchema = z.enum(Object.keys(refusals) as [RefusalCode]).meta({ id: 'RefusalCode' });
