import { InvalidSpecError } from "../base/errors.ts";
import { formatIssue } from "../resources/validate-manifest.ts";

/** Removes `spec` from the paths in error messages, because request bodies contain the fields of the spec directly. */
export async function withFlatIssuePaths<T>(action: () => T | Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    if (!(error instanceof InvalidSpecError)) throw error;
    const issues = error.issues.map((issue) => ({
      ...issue,
      path: issue.path.replace(/^\/spec(?=\/|$)/, ""),
    }));
    const head = error.message.split(": ", 1)[0] ?? error.message;
    const text = issues.map((issue) => formatIssue(issue)).join("; ");
    throw new InvalidSpecError(`${head}: ${text}`, issues, error.hint);
  }
}
