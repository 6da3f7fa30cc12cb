// Installing t4lint where it is missing: offered, shown, never silent.

import * as vscode from "vscode";

const INSTALL = "Install";
const CHOOSE = "Choose the Python";

/** Ask whether to install t4lint into an environment; true when that was started. */
export async function offerInstall(python: string): Promise<boolean> {
  const text = `t4lint is not installed in ${python}. It checks training scripts for NVIDIA T4 GPUs.`;
  const answer = await vscode.window.showInformationMessage(text, INSTALL, CHOOSE);
  if (answer === CHOOSE) {
    await vscode.commands.executeCommand("workbench.action.openSettings", "t4lint.interpreter");
  }
  if (answer !== INSTALL) {
    return false;
  }
  const task = new vscode.Task(
    { type: "t4lint" },
    vscode.TaskScope.Workspace,
    "install",
    "t4lint",
    new vscode.ProcessExecution(python, ["-m", "pip", "install", "t4lint[lsp]"]),
  );
  await finished(task);
  return true;
}

async function finished(task: vscode.Task): Promise<void> {
  const execution = await vscode.tasks.executeTask(task);
  await new Promise<void>((resolve) => {
    const listener = vscode.tasks.onDidEndTask((event) => {
      if (event.execution === execution) {
        listener.dispose();
        resolve();
      }
    });
  });
}
