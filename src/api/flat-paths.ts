import { InvalidSpecError } from "../base/errors.ts";
import { issueText } from "../resources/validate.ts";

/** Bodies of apps hold the fields of the spec without a `spec` around them, and messages follow. */
export async function flatPaths<T>(action: () => T | Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    if (!(error instanceof InvalidSpecError)) throw error;
    const issues = error.issues.map((issue) => ({
      ...issue,
      path: issue.path.replace(/^\/spec(?=\/|$)/, ""),
    }));
    const head = error.message.split(": ", 1)[0] ?? error.message;
    const text = issues.map((issue) => issueText(issue)).join("; ");
    throw new InvalidSpecError(`${head}: ${text}`, issues, error.hint);
  }
}
