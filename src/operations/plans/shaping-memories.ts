import { z } from 'zod';
import { memoryKindSchema } from '../../domain/enum-schemas.ts';
import type { ShapingMemory } from '../../domain/memory.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { PlanOrigin } from '../../machines/command-types.ts';
import type { PlanContext } from '../../machines/plan-types.ts';

// Memories that shaped the steps of a plan, in answers.

const memoryFields = {
  id: uuid,
  kind: memoryKindSchema,
  subject: z.string().optional(),
  source: z.string().meta({ description: 'Author: `user:<id>` or `key:<prefix>`' }),
  adopted_by: uuid.optional().meta({ description: 'The user who adopted it' }),
};

/** A memory that shaped one step. */
export const memoryReference = z
  .object(memoryFields)
  .meta({ id: 'MemoryReference', description: 'A memory as it was when it shaped the step' });

export const shapingMemory = z
  .object({
    ...memoryFields,
    steps: z.array(z.string()).meta({ description: 'Ids of the steps that it shaped' }),
  })
  .meta({ id: 'ShapingMemory', description: 'A memory as it was when it shaped the steps' });

export const memoryReferenceOf = (one: Omit<ShapingMemory, 'steps'>): z.infer<typeof memoryReference> => ({
  ...{ id: one.id, kind: one.kind, ...(one.subject !== null && { subject: one.subject }), source: one.source },
  ...(one.adoptedBy !== null && { adopted_by: one.adoptedBy }),
});

export const shapingMemoryOf = (one: ShapingMemory): z.infer<typeof shapingMemory> => ({
  ...memoryReferenceOf(one),
  steps: [...one.steps],
});

/** The memories that shaped the step of a command; none without a plan. */
export function memoriesOfStep(
  plan: PlanContext | undefined,
  { stepId }: Pick<PlanOrigin, 'stepId'>,
): readonly ShapingMemory[] {
  return plan?.live.cognition?.memories?.filter(({ steps }) => steps.includes(stepId)) ?? [];
}
