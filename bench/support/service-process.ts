import pino from 'pino';
import { returnMemoryWhenIdle } from '../../src/cli/idle-memory.ts';
import { readConfig } from '../../src/config.ts';
import { start } from '../../src/main.ts';
import { answerCpuRequests } from './cpu.ts';
import { recordShardMoves } from './shard-moves.ts';

// The service as `twinkeep serve` starts it, controlled by the benchmark through messages.

const config = readConfig();
const service = await start(config, {
  log: recordShardMoves(pino({ level: config.log.level }, pino.destination(2))),
  limits: JSON.parse(process.env.BENCH_LIMITS ?? '{}'),
  onFatal: () => process.exit(1),
});
returnMemoryWhenIdle();
answerCpuRequests();
process.on('disconnect', () => service.stop().then(() => process.exit(0)));
process.send?.({ listening: true });
await service.active;
process.send?.({ active: true });
