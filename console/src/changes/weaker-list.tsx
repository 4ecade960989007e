/** The preview of a change: one sentence of the service for each rule that gets weaker. */
export const WeakerList = ({ of: sentences }: { of: readonly string[] }) => (
  <ul aria-label="Rules that get weaker">
    {sentences.map((sentence) => (
      <li key={sentence}>{sentence}</li>
    ))}
  </ul>
);
