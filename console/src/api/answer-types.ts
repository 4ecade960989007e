import type { z } from 'zod';
import type { listConfirmations } from '../../../src/operations/commands/confirmation-inbox.ts';
import type { getMe } from '../../../src/operations/identity/auth.ts';
import type { getActor, getActorJournal, listActors } from '../../../src/operations/inspection/actors.ts';
import type { getMachine } from '../../../src/operations/inspection/machines.ts';
import type { getOverview } from '../../../src/operations/inspection/overview.ts';

// Response types, taken from the service's operations: an incompatible change does not compile here.

/** `Answer<typeof getMe>`: the body of a successful response. */
export type Answer<O extends { output: z.ZodType }> = z.infer<O['output']>;

export type Me = Answer<typeof getMe>;
export type ActorPage = Answer<typeof listActors>;
export type ActorEntry = ActorPage['actors'][number];
export type ActorRecord = Answer<typeof getActor>['actor'];
export type JournalPage = Answer<typeof getActorJournal>;
export type JournalEntry = JournalPage['entries'][number];
export type Machine = Answer<typeof getMachine>['machine'];
export type Overview = Answer<typeof getOverview>;
export type ConfirmationPage = Answer<typeof listConfirmations>;
export type ActorKind = ActorEntry['kind'];
