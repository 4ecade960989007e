// Times of `datetime-local` inputs, in the browser's zone.

/** ISO time → value of a `datetime-local` input. */
export function toLocalInput(iso: string | null): string {
  const at = new Date(iso ?? '');
  if (Number.isNaN(at.getTime())) return '';
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** Value of a `datetime-local` input → ISO time; empty if it is incomplete. */
export function fromLocalInput(text: string): string {
  const at = new Date(text);
  return text === '' || Number.isNaN(at.getTime()) ? '' : at.toISOString();
}
