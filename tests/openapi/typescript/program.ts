// What a client's author writes with the generated types. It is compiled, not run.
import type { components, operations, paths } from "./vedette";

type Schemas = components["schemas"];

// What may be left out may be left out.
const workflow: Schemas["NewWorkflow"] = {
  name: "Greet",
  trigger: { type: "webhook" },
  steps: [
    { id: "who", type: "transform", config: { expression: "trigger.name" } },
    { id: "tell", type: "webhook", config: { url: "https://example.com" }, retry: { max_attempts: 5 } },
  ],
};
const search: paths["/api/agent/darkweb"]["post"]["requestBody"]["content"]["application/json"] = { query: "x" };
const change: Schemas["WorkflowChanges"] = { status: "paused" };

// @ts-expect-error: a name is needed
const nameless: Schemas["NewWorkflow"] = {};
// @ts-expect-error: an unknown field
const misspelt: Schemas["NewWorkflow"] = { name: "x", stepz: [] };
// @ts-expect-error: the type decides what config there is
const confused: Schemas["NewWorkflow"]["steps"] = [{ id: "a", type: "delay", config: { url: "x" } }];

// What is always there needs no question mark.
export function told(run: operations["get_run"]["responses"][200]["content"]["application/json"]): string {
  const attempts: number = run.steps.reduce((sum, step) => sum + step.attempts, 0);
  return `${run.status} after ${attempts} attempts, test: ${run.test satisfies boolean}`;
}

export function listed(answer: operations["list_runs"]["responses"][200]["content"]["application/json"]): number {
  return answer.runs.reduce((sum, run) => sum + (run.steps?.length ?? run.steps_total), 0);
}
const include: operations["list_runs"]["parameters"]["query"] = { include: ["steps"] };

export function total(made: Schemas["WorkflowView"], deleted: Schemas["Deleted"]): number | boolean {
  return deleted.success && made.runs_total;
}

export function worst(problem: Schemas["Problem"]): string {
  return problem.errors?.[0]?.pointer ?? problem.code;
}

type Ingest = operations["ingest"];
const event: NonNullable<Ingest["requestBody"]>["content"]["application/json"] = { email: "ada@example.com" };
const headers: Ingest["parameters"]["header"] = { "Idempotency-Key": "1", "webhook-id": "msg_1" };

export const used = { workflow, search, change, nameless, misspelt, confused, event, headers, include };
