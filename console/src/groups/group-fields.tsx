import { useId } from 'react';
import { textIn } from '../ui/form-dialog.tsx';
import { NameField } from '../ui/name-field.tsx';

/** Fields of a new or changed group. */
export function GroupFields({ name, description = null }: { name?: string; description?: string | null }) {
  const id = useId();
  return (
    <>
      <NameField placeholder="e.g. Evening lights" {...(name !== undefined && { value: name })} />
      <label htmlFor={id}>Description (optional)</label>
      <input id={id} name="description" maxLength={500} autoComplete="off" defaultValue={description ?? ''} />
    </>
  );
}

/** `description` is empty without one. */
export const groupInput = (given: FormData): { name: string; description: string } => ({
  name: textIn(given, 'name'),
  description: textIn(given, 'description'),
});
