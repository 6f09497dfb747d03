"""What users and projects write for the agent: instructions, skills, commands, agents."""
