import { execFile } from "node:child_process";
import { promisify } from "node:util";

/** The user of `requestAsOtherUser`: `nobody` if the tests run as root, otherwise the user of the tests. */
export const otherUid = process.getuid?.() === 0 ? 65_534 : (process.getuid?.() ?? 0);

export interface OtherUserRequest {
  readonly url: string;
  readonly method?: "GET" | "POST" | "OPTIONS";
  /** The body of the request, a JSON document. */
  readonly body?: string;
}

const program = `
process.setuid(${otherUid});
const answers = [];
for (const { url, ...request } of JSON.parse(process.argv[1])) {
  const response = await fetch(url, { ...request, headers: { "content-type": "application/json" } });
  answers.push({ status: response.status, body: await response.text() });
}
process.stdout.write(JSON.stringify(answers));
`;

/** Sends requests from a program of the user `otherUid`, one after another. Resolves to their answers. */
export async function requestAsOtherUser(
  requests: readonly OtherUserRequest[],
): Promise<{ readonly status: number; readonly body: string }[]> {
  const { stdout } = await promisify(execFile)(process.execPath, [
    "--input-type=module",
    "--eval",
    program,
    JSON.stringify(requests),
  ]);
  return JSON.parse(stdout);
}
