// What every program here shares: how it is called, what it prints, and how it
// ends. It knows nothing of A2A or of any SDK.
import { parseArgs } from 'node:util';

/** How many calls of one turn run at once, unless --count says otherwise. */
export const FAN_OUT = 11;

/** Thrown when the SDK under test has no way to do what was asked: exit code 3. */
export class Unsupported extends Error {}

/** The options of a client program. */
export function clientOptions() {
  const { values } = parseArgs({
    options: {
      url: { type: 'string' },
      binding: { type: 'string', default: 'JSONRPC' },
      version: { type: 'string', default: '1.0' },
      scenario: { type: 'string' },
      count: { type: 'string' },
    },
  });
  if (!values.url || !values.scenario) {
    throw new Error('--url and --scenario are required');
  }
  return { ...values, count: values.count === undefined ? undefined : positive('count', values.count) };
}

/** The options of a server program; grpcPort is undefined when gRPC is off. */
export function serverOptions() {
  const { values } = parseArgs({
    options: {
      port: { type: 'string' },
      'grpc-port': { type: 'string' },
      version: { type: 'string' },
    },
  });
  if (!values.port || !values.version) {
    throw new Error('--port and --version are required');
  }
  const grpc = values['grpc-port'];
  return {
    port: positive('port', values.port),
    grpcPort: grpc === undefined ? undefined : positive('grpc-port', grpc),
    version: values.version,
  };
}

function positive(name, text) {
  const n = Number(text);
  if (!Number.isInteger(n) || n < 1) {
    throw new Error(`--${name} ${text}: want a positive number`);
  }
  return n;
}

/** Prints one step as one JSON line; members that are absent or empty are left out. */
export function print(step, members) {
  const line = { step };
  for (const [key, value] of Object.entries(members)) {
    if (value !== undefined && value !== '') {
      line[key] = value;
    }
  }
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

/**
 * Runs a program's main function and turns how it ends into the exit code:
 * 0 done, 3 the SDK cannot do it, 1 anything else.
 */
export async function run(main) {
  let code = 0;
  try {
    await main();
  } catch (err) {
    code = err instanceof Unsupported ? 3 : 1;
    process.stderr.write(`${code === 3 ? err.message : err.stack}\n`);
  }
  // Streams and channels that an SDK left open must not keep the process; what
  // was printed must be out before it goes.
  process.stdout.write('', () => process.exit(code));
}

/** Says that the server listens, and ends it on SIGTERM after calling stop. */
export function ready(stop) {
  process.on('SIGTERM', () => {
    stop();
    process.exit(0);
  });
  process.stdout.write('ready\n');
}
