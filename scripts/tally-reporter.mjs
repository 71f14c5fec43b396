// A vitest reporter that counts passed tests and failures. Files that could not be loaded and errors outside of
// tests count as failures.
import { writeFileSync } from "node:fs";

export default class TallyReporter {
  onTestRunEnd(modules, unhandledErrors) {
    let passed = 0;
    let failed = unhandledErrors.length;
    for (const module of modules) {
      let failedHere = 0;
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        if (state === "passed") passed += 1;
        else if (state !== "skipped") failedHere += 1;
      }
      if (failedHere === 0 && module.state() === "failed") failedHere = 1;
      failed += failedHere;
    }
    const file = process.env.BERTH_TEST_TALLY;
    if (file) writeFileSync(file, JSON.stringify({ passed, failed }));
  }
}
