"""Descriptions of jobs, as files have them: JSON and XML under the names of JSDL, and what both mean.

The names are those of the Job Submission Description Language 1.0 (Open Grid Forum, GFD.136); what it has no
name for has one of ours: software with versions, how long the job takes, its deadline, how sure it is to be.
Thamarai Selvi et al., section 3, put into XML what a form asks for; so does `writing.to_xml`.
"""
