import { useId } from 'react';
import { textIn } from '../ui/form-dialog.tsx';
import { NameField } from '../ui/name-field.tsx';

/** Fields of a new or changed home. */
export function HomeFields({ name, timezone }: { name?: string; timezone: string | null }) {
  const [zoneId, zonesId] = [useId(), useId()];
  return (
    <>
      <NameField placeholder="e.g. Lakeside" {...(name !== undefined && { value: name })} />
      <label htmlFor={zoneId}>Time zone (optional)</label>
      <input id={zoneId} name="timezone" list={zonesId} autoComplete="off" defaultValue={timezone ?? ''} />
      <datalist id={zonesId}>
        {Intl.supportedValuesOf('timeZone').map((zone) => (
          <option key={zone} value={zone} />
        ))}
      </datalist>
    </>
  );
}

/** The body of the request that changes a home. */
export const homeChange = (given: FormData): { home_name: string; timezone: string | null } => ({
  home_name: textIn(given, 'name'),
  timezone: textIn(given, 'timezone') || null,
});

/** The body of the request that creates a home. */
export function homeInput(given: FormData): { home_name: string; timezone?: string } {
  const timezone = textIn(given, 'timezone');
  return { home_name: textIn(given, 'name'), ...(timezone !== '' && { timezone }) };
}

export const browserTimeZone = (): string => new Intl.DateTimeFormat().resolvedOptions().timeZone;
