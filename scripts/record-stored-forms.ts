// Records the stored forms of actors in test/machines/stored-forms.json, after the author has decided on the data level.
import { writeFileSync } from 'node:fs';
import { storedForms } from '../test/machines/stored-forms.ts';

const recorded = new URL('../test/machines/stored-forms.json', import.meta.url);
writeFileSync(recorded, `${JSON.stringify(storedForms(), null, 2)}\n`);
