/** Meaning of a colour; texts or signs always state it too. */
export type Tone = 'good' | 'warn' | 'bad' | 'info' | 'quiet';
