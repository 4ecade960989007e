import { spanText } from '../../domain/json/span.ts';
import type { SamplesOutput } from '../../machines/outputs.ts';
import type { ReportedSamples } from '../../store/contract/actor-store.ts';

/** The reports of one commit as one text. A report that arrived in its canonical form is not serialized again. */
export function reportedSamples(outputs: readonly SamplesOutput[]): ReportedSamples {
  let text = '';
  for (const { at, deviceAt, sequence, report, written } of outputs) {
    const json = written === undefined ? JSON.stringify(report) : spanText(written);
    text += `${text === '' ? '[' : ','}[${at},${deviceAt},${sequence},${json}]`;
  }
  return { at: outputs[0]?.at ?? 0, text: `${text}]` };
}
