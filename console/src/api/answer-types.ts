import type { z } from 'zod';
import type { listConfirmations } from '../../../src/operations/commands/confirmation-inbox.ts';
import type { getMe } from '../../../src/operations/identity/auth.ts';
import type { getActor, getActorJournal, listActors } from '../../../src/operations/inspection/actors.ts';
import type { getMachine } from '../../../src/operations/inspection/machines.ts';
import type { getOverview } from '../../../src/operations/inspection/overview.ts';

// Response types, taken from the service's operations: an incompatible change does not compile here.

/** `ResponseBody<typeof getMe>`: the body of a successful response. */
export type ResponseBody<O extends { output: z.ZodType }> = z.infer<O['output']>;

export type Me = ResponseBody<typeof getMe>;
export type ActorListBody = ResponseBody<typeof listActors>;
export type ActorEntry = ActorListBody['actors'][number];
export type ActorRecord = ResponseBody<typeof getActor>['actor'];
export type JournalBody = ResponseBody<typeof getActorJournal>;
export type JournalRecord = JournalBody['entries'][number];
export type Machine = ResponseBody<typeof getMachine>['machine'];
export type OverviewRecord = ResponseBody<typeof getOverview>;
export type ConfirmationListBody = ResponseBody<typeof listConfirmations>;
