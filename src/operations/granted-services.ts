import type { Operation, Services } from './operation.ts';

/** Grants each operation the services that it declares in `needs`, as an object without the others. */
export class GrantedServices {
  readonly #services: Services;
  /** Built at the first call of an operation and used for all its calls. */
  readonly #granted = new WeakMap<Operation, Services>();

  constructor(services: Services) {
    this.#services = services;
  }

  for(operation: Operation): Services {
    const known = this.#granted.get(operation);
    if (known !== undefined) return known;
    const granted = grant(this.#services, operation.needs);
    this.#granted.set(operation, granted);
    return granted;
  }
}

function grant<Need extends keyof Services>(services: Services, needs: readonly Need[]): Pick<Services, Need> {
  const granted = Object.fromEntries(needs.map((need) => [need, services[need]]));
  return Object.freeze(granted) as Pick<Services, Need>;
}
