/** How something reads at a glance; never by its colour alone. */
export type Tone = 'good' | 'warn' | 'bad' | 'info' | 'quiet';
